package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// by runs a command on a machine, and gives it time.
func by(machine, command string) func(*testing.T, *world, *spec.Spec) {
	return func(t *testing.T, w *world, _ *spec.Spec) {
		w.inside(t, machine, command)
		time.Sleep(3 * time.Minute)
	}
}

// classicMishaps are those of the failures that cost people days (K1 to N10) that can befall a
// cluster that works.
func classicMishaps() []mishap {
	return []mishap{
		{name: "K2, the first server dies", do: func(t *testing.T, w *world, spec *spec.Spec) { w.byHand(t, spec, "cp1", "stop") }, want: []string{
			"vm-stopped of cp1: cp1 (VM …) does not run [homelab cluster:up starts it", "  node-not-ready of node cp1"}},
		onSmall("K3, another machine of that name", by("gpu1", "echo other >/etc/rancher/node/password; systemctl restart --no-block k3s-agent"),
			"k3s-down of gpu1: K3s does not run: the cluster knows another machine of this name [delete its Node (kubectl delete node NAME frees the password too)", "  node-not-ready of node gpu1").
			showing("gpu1", "journalctl -u k3s-agent", "Node password rejected, duplicate hostname"),
		{name: "K4, a member that was kept", do: by("cp3", "systemctl stop k3s; rm -rf /var/lib/rancher/k3s/server/db; systemctl start --no-block k3s"),
			shows: []string{"cp3", "journalctl -u k3s", "etcd cluster join failed: duplicate node name found"}, want: []string{
				"k3s-down of cp3: K3s does not run: etcd still has a member of this name [delete the Node of the old server, which removes its member, then start this one again]", "  node-not-ready of node cp3"}},
		{name: "K5, another token", do: by("cp3", "systemctl stop k3s; echo K10other::server:other >/etc/rancher/k3s/token; systemctl start --no-block k3s"),
			shows: []string{"cp3", "journalctl -u k3s", "bootstrap data already found and encrypted with different token"}, want: []string{
				"k3s-down of cp3: K3s does not run: this machine holds the data of a cluster with another token [join with the token that is in /var/lib/rancher/k3s/server/token of a running server]", "  node-not-ready of node cp3"}},
		onSmall("K7, an agent with the server's unit", by("gpu1", "cp /etc/systemd/system/k3s-agent.service /etc/systemd/system/k3s.service"),
			"k3s-role of gpu1: it should be agent and has the units of server and agent [disable the wrong unit on it, or recreate it: homelab node:replace -node=gpu1]"),
		volta("N1, modules that do not fit the chip", "apt-get remove -y --allow-change-held-packages 'linux-modules-nvidia-580-server-generic' nvidia-headless-no-dkms-580-server; "+
			"apt-get install -y linux-modules-nvidia-580-server-open-generic nvidia-headless-no-dkms-580-server-open",
			"driver-not-loaded of gpu1: NVIDIA's driver does not work: the chip does not work with the open kernel modules: choose the proprietary series (…PCI ID: 10de:1db4…) [homelab cluster:up installs or repairs it]",
			"  gpus-not-offered of node gpu1").showing("gpu1", "dmesg", "is not supported by open nvidia.ko"),
		{name: "N2, a driver over the loaded one", do: func(t *testing.T, w *world, _ *spec.Spec) {
			w.inside(t, "wk-gpu3", "apt-get remove -y --allow-change-held-packages libnvidia-compute-580-server nvidia-utils-580-server nvidia-headless-no-dkms-580-server-open; apt-get install -y nvidia-utils-595-server")
		}, shows: []string{"wk-gpu3", "nvidia-smi || true", "Failed to initialize NVML: Driver/library version mismatch"}, want: []string{"driver-mismatch of wk-gpu3: a driver was installed over the one that is loaded: no program can use a GPU until the machine restarts [homelab node:cycle -node=wk-gpu3 drains it"}},
		onSmall("N3, the toolkit came after K3s", func(t *testing.T, w *world, _ *spec.Spec) {
			w.inside(t, "gpu1", "apt-get remove -y --allow-change-held-packages nvidia-container-toolkit nvidia-container-toolkit-base; systemctl restart k3s-agent; apt-get install -y nvidia-container-toolkit")
			_, err := w.api(t).Apply(t.Context(), requesting("job", "cpu", 1), requesting("training", "nvidia.com/gpu", 1))
			require.NoError(t, err)
			time.Sleep(3 * time.Minute)
			said, err := w.api(t).List(t.Context(), "v1", "Event", "default", "")
			require.NoError(t, err)
			assert.Contains(t, fmt.Sprint(said), `no runtime for "nvidia" is configured`)
		}, "toolkit of gpu1: containers cannot use its GPUs: the toolkit was installed after K3s had started, and K3s detects it only at start: restart k3s-agent (or k3s, on a server) [homelab cluster:up does it]",
			"  toolkit of pod default/job-", "  gpus-not-offered of node gpu1", "  pod-unschedulable of pod default/training-"),
		onSmall("N3, a template of somebody", by("gpu1", "echo x >/var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl"),
			"toolkit of gpu1: containers cannot use its GPUs: the template overrides what K3s detects: remove the file and restart K3s [homelab cluster:up does it]"),
		onSmall("N5, a taint of somebody", func(t *testing.T, w *world, _ *spec.Spec) {
			api := w.api(t)
			require.NoError(t, api.Mark(t.Context(), "gpu1", kube.Marks{Taints: []kube.Taint{{Key: "dedicated", Value: "research", Effect: "NoSchedule"}}}))
			pods, err := api.NodePods(t.Context(), "gpu1")
			require.NoError(t, err)
			for _, p := range pods {
				require.NoError(t, api.Delete(t.Context(), &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}))
			}
			time.Sleep(5 * time.Minute)
		}, "gpus-not-offered of node gpu1: it offers 0 of 1 nvidia.com/gpu, and has a taint that the file does not name: nothing that homelab deploys tolerates it [write taints: [\"dedicated=research:NoSchedule\"] for the node"),
		sharing("N6, two shares for one program", 2, 0,
			"pod-not-starting of pod default/user0-…: its node refused it: Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu, which is unexpected (and … more pods of the same owner) [where GPUs are shared, a container gets one share: ask for 1"),
		sharing("N6, more programs than shares", 1, 2,
			"pod-unschedulable of pod default/user…: no node takes it: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector [all fitting GPUs are taken: wait, or share them (docs/gpus.md)]"),
		onSmall("N8, a driver that does not load", func(t *testing.T, w *world, _ *spec.Spec) {
			w.sim.SetGuestFaults(w.vm(t, "gpu1").ID, guest.Faults{DriverFailsToLoad: true})
			w.reboot(t, "gpu1")
		}, "driver-not-loaded of gpu1: NVIDIA's driver does not work: the driver could not initialize the GPU: stop and start the VM", "  gpus-not-offered of node gpu1").
			showing("gpu1", "dmesg", "RmInitAdapter failed!"),
	}
}

// sharing is a mishap with a card that has two shares: one program more than some others asks for so
// many of them.
func sharing(name string, shares int64, others int, want ...string) mishap {
	m := onSmall(name, func(t *testing.T, w *world, _ *spec.Spec) {
		for i := range others + 1 {
			_, err := w.api(t).Apply(t.Context(), lodger(fmt.Sprintf("user%d", i), "gpu1", shares))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
	}, want...)
	m.file = func(t *testing.T) string { return small + "nvidia: {sharing: {strategy: time-slicing, replicas: 2}}\n" }
	return m
}

// volta is a mishap with a node whose card is a V100: a command, and a restart.
func volta(name, command string, want ...string) mishap {
	m := onSmall(name, func(t *testing.T, w *world, _ *spec.Spec) {
		w.inside(t, "gpu1", command)
		w.reboot(t, "gpu1")
	}, want...)
	m.model = func() pvesim.Model { return withCard("10de:1db4", "Tesla V100 PCIe 16GB") }
	return m
}

// withCard is OneGPU with another card.
func withCard(id, product string) pvesim.Model {
	model := pvesim.OneGPU()
	for i := range model.Hosts[0].PCI {
		if p := &model.Hosts[0].PCI[i]; p.ID == "10de:2684" {
			p.ID, p.Product, p.Class = id, product, "030200"
		}
	}
	return model
}

// What cost people days is named when it happens to a cluster that works.
func TestDoctorKnowsTheClassics(t *testing.T) { findTheCauses(t, classicMishaps()) }

// K1: the version in the file reached no command. A plan says so, and so does the doctor.
func TestAnotherVersionThanTheFile(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.up(t, parse(t, small))
		time.Sleep(5 * time.Minute)
		next := parse(t, replace(t, small, "v1.36.5+k3s1", "v1.36.6+k3s1"))
		assert.Contains(t, w.plan(t, next), "k3s/gpu1: version: v1.36.5+k3s1 → v1.36.6+k3s1 (needs a restart)")
		assertFound(t, []string{"k3s-version of cp1: K3s is v1.36.5+k3s1, and the file says v1.36.6+k3s1 [homelab cluster:up upgrades node by node]", "k3s-version of gpu1"}, w.examine(t, next))
	})
}

// K6: a node that is missing is named, and is not hidden by those that are ready.
func TestNodeThatNeverCame(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Skip: 2, Times: -1, Guest: &guest.Faults{NodeNeverReady: true}})
		want := parse(t, small)
		_, err := w.cluster(t, want).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "node/gpu1: gpu1 did not register with the cluster, although K3s was restarted, within 5m0s: the cluster has no such node")
		require.ErrorContains(t, err, "journalctl -u k3s-agent there says why; homelab node:replace -node=gpu1 recreates the machine")
		assertFound(t, []string{"node-missing of node gpu1: the file has it and the cluster does not [homelab cluster:up lets it join]"}, w.examine(t, want))
	})
}

// N7: a driver container whose image NVIDIA has not made.
func TestDoctorKnowsTheOperatorsDriver(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		want := parse(t, withOperator(t, "one-gpu", ", driver: {mode: operator}, values: {driver: {usePrecompiled: true}}"))
		_, err := w.cluster(t, want).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "NVIDIA has no driver container for the kernel of gpu1: there is no image ")
		require.ErrorContains(t, err, "remove driver.usePrecompiled from nvidia.values, so that the container builds the modules, or write mode: prebuilt")
		time.Sleep(5 * time.Minute)
		assertFound(t, []string{"image of pod gpu-operator/nvidia-driver-daemonset-…: the GPU operator's driver nvcr.io/nvidia/driver:580-…-ubuntu24.04 cannot be pulled " +
			"[NVIDIA has no driver container with prebuilt modules for every kernel: remove usePrecompiled under nvidia.values, or write driver: {mode: prebuilt}]",
			"  gpus-not-offered of node gpu1"}, w.examine(t, want))
	})
}

// N9: somebody takes from the operator where K3s keeps its containerd. It is named, and a plan sees it.
func TestOperatorWithoutTheSocketOfK3s(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		want := parse(t, withOperator(t, "one-gpu", ", driver: {mode: operator, branch: 580-server}"))
		w.up(t, want)
		api := w.api(t).WithFieldManager("somebody")
		policies, err := api.List(t.Context(), "nvidia.com/v1", "ClusterPolicy", "", "")
		require.NoError(t, err)
		require.Len(t, policies, 1)
		require.NoError(t, unstructured.SetNestedSlice(policies[0].Object, []any{}, "spec", "toolkit", "env"))
		policies[0].SetManagedFields(nil)
		_, err = api.ServerSideApply(t.Context(), &policies[0])
		require.NoError(t, err)
		w.reboot(t, "gpu1")
		assertFound(t, []string{"pod-crashing of pod gpu-operator/nvidia-container-toolkit-daemonset-…: container nvidia-container-toolkit-ctr ends again and again " +
			"[it must find K3s' containerd: homelab cluster:up puts toolkit.env back; kubectl -n gpu-operator logs nvidia-container-toolkit-daemonset-…"}, w.examine(t, want))
		assert.Contains(t, strings.Join(w.plan(t, want), "\n"), "chart/gpu-operator: clusterpolicy/cluster-policy/spec.toolkit.env.CONTAINERD_CONFIG")
		w.up(t, want)
		time.Sleep(5 * time.Minute)
		assert.Empty(t, w.examine(t, want))
	})
}

// PX8: a card that a restart from inside does not reset. It is named, and the cure cures it.
func TestCardThatDoesNotWake(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		want := parse(t, small)
		w.up(t, want)
		time.Sleep(5 * time.Minute)
		kernelSays("gpu1", "nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible")(t, w, want)
		assertFound(t, []string{"card-asleep of gpu1: a passed-through card does not wake up, since a restart from inside does not reset it [homelab node:cycle -node=gpu1 switches the VM off and on]"}, w.examine(t, want))
		require.NoError(t, w.verb(t, want, cycled(t.Context(), "gpu1", false)))
		time.Sleep(5 * time.Minute)
		assert.Empty(t, w.examine(t, want))
	})
}
