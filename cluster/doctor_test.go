package cluster_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// examine returns what the doctor finds, as "failure of where: what [do]", with what follows indented.
func (w *world) examine(t testing.TB, spec *spec.Spec) []string {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	report, err := doctor.Examine(t.Context(), c.Doctor())
	require.NoError(t, err)
	var out []string
	for _, f := range report.Causes() {
		out = append(out, f.Failure+" of "+f.Where+": "+f.What+" ["+f.Do+"]")
		for _, more := range report.ConsequencesOf(f) {
			out = append(out, "  "+more.Failure+" of "+more.Where)
		}
	}
	return out
}

// inside runs a command as root on a machine.
func (w *world) inside(t testing.TB, machine string, command string) {
	t.Helper()
	ask(t, w.guests()[machine], "sh", "-c", command)
}

// A healthy cluster has nothing wrong, and looking changes nothing.
func TestDoctorOfAHealthyCluster(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		time.Sleep(5 * time.Minute)
		before, asked := w.now(), len(w.sim.Requests())
		assert.Empty(t, w.examine(t, spec))
		assert.Equal(t, changes{}, before.changes())
		assert.LessOrEqual(t, len(w.sim.Requests())-asked, 10+2*len(spec.Nodes), "requests to Proxmox")
	})
}

// Without Proxmox, machines, K3s and pods are looked at as with it, by a machine that has seen them before.
func TestDoctorWithoutProxmox(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, small)
		w.up(t, spec)
		time.Sleep(5 * time.Minute)
		look := func() []string {
			signer, err := ssh.LoadSigner(filepath.Join(w.dir, "id_ed25519"))
			require.NoError(t, err)
			c, err := cluster.New(spec, cluster.Backend{Dial: w.sim.Network().Dial, Dir: w.dir, Signers: []ssh.Signer{signer}})
			require.NoError(t, err)
			defer c.Close()
			sources := c.Doctor()
			sources.Away = errors.New("no route to host")
			report, err := doctor.Examine(t.Context(), sources)
			require.NoError(t, err)
			var out []string
			for _, f := range report.Findings {
				out = append(out, f.Failure+" of "+f.String()+" "+strings.Join(f.Evidence, " "))
			}
			assert.Equal(t, []string{"2 machines", "2 nodes"}, report.Looked[:2])
			return out
		}
		assert.Equal(t, []string{"proxmox-unreachable of Proxmox: its API does not answer as it should, so hosts, VMs and cards were not looked at no route to host"}, look())
		w.inside(t, "gpu1", "echo K10wrong::server:wrong >/etc/rancher/k3s/token; systemctl restart --no-block k3s-agent")
		time.Sleep(2 * time.Minute)
		assert.Contains(t, strings.Join(look(), "\n"), "k3s-down of gpu1: K3s does not run: the token is of another cluster")
	})
}

// mishap is something that goes wrong in a cluster that works, and what the doctor says of it: its
// causes, as "failure of where: what [what to do]", and consequences, indented. … stands for any text.
type mishap struct {
	name  string
	model func() pvesim.Model // nil: EightA100
	file  func(t *testing.T) string
	do    func(t *testing.T, w *world, spec *spec.Spec)
	shows []string // a machine, a command there, and what it prints: the symptom
	want  []string
}

// showing is a mishap with its symptom.
func (m mishap) showing(machine, command, text string) mishap {
	m.shows = []string{machine, command, text}
	return m
}

// onSmall is small, for mishaps that need no more than a node with a card.
func onSmall(name string, do func(t *testing.T, w *world, spec *spec.Spec), want ...string) mishap {
	return mishap{name: name, model: pvesim.OneGPU, file: func(*testing.T) string { return small }, do: do, want: want}
}

// kernelSays puts a line into a machine's kernel log.
func kernelSays(machine, line string) func(*testing.T, *world, *spec.Spec) {
	return func(t *testing.T, w *world, _ *spec.Spec) { w.inside(t, machine, "echo '"+line+"' >/dev/kmsg") }
}

func faulty(machine string, f guest.Faults) func(*testing.T, *world, *spec.Spec) {
	return func(t *testing.T, w *world, _ *spec.Spec) { w.sim.SetGuestFaults(w.vm(t, machine).ID, f) }
}

// ages replaces the certificate of a node's kubelet by one that ends in some days.
func ages(machine string, days int) func(*testing.T, *world, *spec.Spec) {
	return func(t *testing.T, w *world, _ *spec.Spec) {
		pid, err := w.guests()[machine].AgentExec([]string{"sh", "-c", agedInPlace}, aged(t, days))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		status, err := w.guests()[machine].AgentStatus(pid)
		require.NoError(t, err)
		require.True(t, status.Exited)
	}
}

func mishaps() []mishap {
	return []mishap{
		{name: "a stopped VM", do: func(t *testing.T, w *world, spec *spec.Spec) { w.byHand(t, spec, "wk-gpu1", "stop") }, want: []string{
			"vm-stopped of wk-gpu1: wk-gpu1 (VM …) does not run", "  no-login of wk-gpu1", "  node-not-ready of node wk-gpu1"}},
		{name: "the agent's token", do: func(t *testing.T, w *world, _ *spec.Spec) {
			w.inside(t, "wk-gpu2", "echo K10wrong::server:wrong >/etc/rancher/k3s/token; systemctl restart --no-block k3s-agent")
			time.Sleep(2 * time.Minute)
		}, want: []string{"k3s-down of wk-gpu2: K3s does not run: the token is of another cluster", "  node-not-ready of node wk-gpu2"}},
		{name: "no quorum", do: func(t *testing.T, w *world, spec *spec.Spec) {
			w.byHand(t, spec, "cp1", "stop")
			w.byHand(t, spec, "cp2", "stop")
		}, want: []string{"vm-stopped of cp1", "  api-down of Kubernetes", "vm-stopped of cp2"}},
		{name: "a node that was drained", do: func(t *testing.T, w *world, _ *spec.Spec) {
			require.NoError(t, w.api(t).Cordon(t.Context(), "wk-gpu4"))
		}, want: []string{"node-cordoned of node wk-gpu4"}},
		{name: "a lock that was left", do: func(t *testing.T, w *world, _ *spec.Spec) { w.lock("cp3", "backup") }, want: []string{"vm-locked of cp3: cp3 (VM "}},
		onSmall("an Xid", kernelSays("gpu1", "NVRM: Xid (PCI:0000:01:00): 48, pid=77, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU"),
			"gpu-error of gpu1: Xid 48 of GPU 0000:01:00 (hardware): an error in the GPU's memory that ECC could not correct [drain the node, then stop and start the VM …: homelab node:cycle -node=gpu1]"),
		onSmall("a program's Xid", kernelSays("gpu1", "NVRM: Xid (PCI:0000:01:00): 13, pid=77, name=python3, Graphics SM Warp Exception")),
		onSmall("a certificate that has ended", ages("gpu1", -2), "certificate of gpu1: 1 certificate of K3s: the first has ended on …, and its programs are refused [homelab cluster:certs -rotate"),
		onSmall("a certificate that ends soon", ages("gpu1", 20), "certificate of gpu1: 1 certificate of K3s: the first ends on …, and K3s renews them only when it starts [homelab cluster:certs -rotate"),
		onSmall("a full disk", faulty("gpu1", guest.Faults{DiskFull: true}), "disk-full of gpu1: / is 100 % full: below 5 % free, the kubelet evicts pods [remove what is not needed, or write a larger size"),
		{name: "a clock", do: faulty("wk-gpu1", guest.Faults{ClockAhead: true}), want: []string{"clock of wk-gpu1: its clock is 10m0s ahead of the other machines': certificates and etcd need clocks that agree [let it reach a time server"}},
		onSmall("a pod that fits nowhere", func(t *testing.T, w *world, _ *spec.Spec) {
			_, err := w.api(t).Apply(t.Context(), lodger("training", "gpu1", 4))
			require.NoError(t, err)
			time.Sleep(2 * time.Minute)
		}, "pod-unschedulable of pod default/training-…: no node takes it: 0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector "+
			"[it asks for 4 GPUs, and no node has more than 1: ask for fewer, or give a node more in the file]"),
		oneInstance("instances that somebody removed", "nvidia-smi mig -dci; nvidia-smi mig -dgi",
			"mig-layout of gpu1: its GPUs are not divided as in the file: GPU 0: in MIG mode, without instances → 2 of 3g.40gb (needs a restart) [homelab cluster:up divides them"),
		onSmall("a repository that Fleet cannot read", func(t *testing.T, w *world, _ *spec.Spec) { w.fleetSays(t) },
			"fleet-bundle of bundle hub: ErrApplied: chart hub: 404 Not Found [fix it in Git, and push", "  fleet-bundle of bundle monitors",
			"fleet-repo of gitrepo homelab: Fleet cannot read the repository: authentication required: Unauthorized [what runs keeps running"),
	}
}

// oneInstance is a mishap with a node whose card is divided: a command breaks that, and the device
// plugin starts again.
func oneInstance(name, command string, want ...string) mishap {
	return mishap{name: name, want: want, model: func() pvesim.Model { return withCard("10de:2330", "NVIDIA H100 80GB HBM3") }, file: func(t *testing.T) string {
		return replace(t, small, "gpus: 1}", "gpus: {count: 1, sharing: {strategy: mig, layouts: [{profiles: {3g.40gb: 2}}]}}}")
	}, do: func(t *testing.T, w *world, _ *spec.Spec) {
		w.inside(t, "gpu1", command)
	}}
}

// fleetSays plays Fleet: a GitRepo that it cannot read any longer, a bundle that it could not
// deploy, and one that waits for that.
func (w *world) fleetSays(t *testing.T) {
	t.Helper()
	c := w.kube.Clusters()[0]
	is := func(manifest string, args ...any) {
		require.NoError(t, c.Apply(t.Context(), fmt.Appendf(nil, manifest, args...)))
	}
	for _, kind := range []string{"GitRepo", "Bundle", "BundleDeployment"} {
		is(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]ss.fleet.cattle.io}, spec: {group: fleet.cattle.io, scope: Namespaced,
names: {kind: %[1]s, plural: %[2]ss, singular: %[2]s}, versions: [{name: v1alpha1, served: true, storage: true}]}}`, kind, strings.ToLower(kind))
	}
	is(`{apiVersion: v1, kind: Namespace, metadata: {name: fleet-local}}`)
	is(`{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, metadata: {name: homelab, namespace: fleet-local}, status: {gitJobStatus: Current, observedGeneration: 9,
conditions: [{type: GitPolling, status: "False", message: "authentication required: Unauthorized"}]}}`)
	for name, message := range map[string]string{"hub": "chart hub: 404 Not Found", "monitors": "dependent bundle(s) are not ready: [hub]"} {
		const meta = `metadata: {name: %[1]s, namespace: fleet-local, labels: {fleet.cattle.io/repo-name: homelab, fleet.cattle.io/bundle-name: %[1]s,
fleet.cattle.io/bundle-namespace: fleet-local, fleet.cattle.io/cluster: local}}, `
		is(`{apiVersion: fleet.cattle.io/v1alpha1, kind: Bundle, `+meta+`spec: {}}`, name)
		is(`{apiVersion: fleet.cattle.io/v1alpha1, kind: BundleDeployment, `+meta+`spec: {deploymentID: s-1}, status: {conditions: [{type: Deployed, status: "False", message: %[2]q}]}}`, name, message)
	}
}

// One mishap is one cause, with everything that it brings about below it, and what to do.
func TestDoctorFindsTheCause(t *testing.T) { findTheCauses(t, mishaps()) }

func findTheCauses(t *testing.T, all []mishap) {
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := pvesim.EightA100()
				if m.model != nil {
					model = m.model()
				}
				w := newWorld(t, model)
				text := example(t, "eight-a100")
				if m.file != nil {
					text = m.file(t)
				}
				spec := parse(t, text)
				w.up(t, spec)
				time.Sleep(5 * time.Minute)
				m.do(t, w, spec)
				if m.shows != nil {
					assert.Contains(t, ask(t, w.guests()[m.shows[0]], "sh", "-c", m.shows[1]), m.shows[2])
				}
				assertFound(t, m.want, w.examine(t, spec))
			})
		})
	}
}

// assertFound checks that all causes, and no others, were found, and the consequences that are named.
func assertFound(t testing.TB, want, got []string) {
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return strings.HasPrefix(line, " ") })
	for _, x := range want {
		var parts []string
		for part := range strings.SplitSeq(x, "…") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		is := regexp.MustCompile("^" + strings.Join(parts, ".*")).MatchString
		assert.True(t, slices.ContainsFunc(got, is), "%q in\n%s", x, strings.Join(got, "\n"))
		left = slices.DeleteFunc(left, is)
	}
	assert.Empty(t, left, "further causes")
}
