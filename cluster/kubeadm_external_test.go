package cluster_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// kubeadmStrangers is strangers with kubeadm.
func kubeadmStrangers(t testing.TB) string {
	t.Helper()
	return strangers + withKubeadm(t)
}

// withKubeadm is what a file without a platform needs for kubeadm.
func withKubeadm(t testing.TB) string {
	t.Helper()
	return "distribution: kubeadm\ncharts: {offline: true, folder: " + charts(t) + "}\n"
}

// Machines that exist become a cluster with kubeadm without any Proxmox, leave it one by one, and run on without it.
func TestKubeadmOnExternalMachines(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, keys := w.pair(t)
		defer a.Kill()
		defer b.Kill()
		s := parse(t, kubeadmStrangers(t))
		run := func(s *spec.Spec, g *converge.Graph) {
			t.Helper()
			_, err := g.Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			plan, err := w.bare(t, s, keys).Up().Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err())
			assert.False(t, plan.Changes())
		}
		run(s, w.bare(t, s, keys).Up())
		nodes := w.nodes(t)
		require.Len(t, nodes, 2)
		assert.True(t, nodes["a"].Ready && nodes["b"].Ready)
		assert.Equal(t, "roof", nodes["b"].Labels["example.com/site"])
		assert.Empty(t, w.mutations(), "nobody asks Proxmox")

		g, err := w.bare(t, s, keys).NodeReplace(t.Context(), "b", false)
		require.NoError(t, err)
		run(s, g)

		g, err = w.bare(t, s, keys).NodeRemove(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.NotContains(t, w.nodes(t), "b")
		assert.True(t, b.Running())
		for _, gone := range []string{"/usr/bin/kubelet", "/etc/kubernetes", "/var/lib/kubelet", "/etc/containerd/config.toml", "/etc/apt/sources.list.d/homelab-kubernetes.list"} {
			assert.False(t, b.Disk().Exists(gone), gone)
			assert.True(t, a.Disk().Exists(gone), gone)
		}

		one := parse(t, strings.Join(strings.Split(strangers, "\n")[:5], "\n")+"\n"+withKubeadm(t))
		run(one, w.bare(t, one, keys).Up())
		w.bareDown(t, s, keys)
		assert.False(t, a.Disk().Exists("/var/lib/etcd"))
		assert.True(t, a.Running())
	})
}

// Machines with kubeadm that nobody here made verify a GPU, have a hub, go to another version one after the other, and come
// back from a backup.
func TestExternalLifeWithKubeadm(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		card := guest.PCI{Vendor: 0x10de, Device: 0x20f1, Class: 0x030200, Address: "0000:01:00.0", Host: "0000:41:00.0"}
		a, b, keys := w.external(t, "10.0.0.40"), w.externalOf(t, "10.0.0.41", "amd64", card), filepath.Join(t.TempDir(), "known_hosts")
		defer a.Kill()
		defer b.Kill()
		meet(t, keys, "10.0.0.40", a)
		meet(t, keys, "10.0.0.41", b)
		run := func(s *spec.Spec, g *converge.Graph) {
			t.Helper()
			_, err := g.Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			plan, err := w.bare(t, s, keys).Up().Plan(t.Context())
			require.NoError(t, err)
			require.NoError(t, plan.Err())
			assert.False(t, plan.Changes())
		}
		require.Zero(t, b.Run(t.Context(), "root", ownersDriver, io.Discard))
		b.Kill()
		require.NoError(t, b.Boot(t.Context()))
		time.Sleep(time.Minute)
		file := replace(t, kubeadmStrangers(t), "labels: {example.com/site: roof}", "gpus: 1") + `
storage: {nfs: {server: 192.168.1.5, export: /export/k8s}}
loadBalancer: {kind: metallb, addresses: [10.0.9.0/24], bgp: {asn: 64512, peers: [{address: 10.0.0.1, asn: 64500}]}}
hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}
`
		s := parse(t, file)
		run(s, w.bare(t, s, keys).Up())
		assert.Contains(t, w.kube.Clusters()[0].Names("deployments.apps"), "jupyterhub/hub")
		g, v := w.bare(t, s, keys).GPUVerify(cluster.VerifyQuick, 0)
		_, err := g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		require.NoError(t, v.Clean(t.Context()))
		require.Len(t, v.Results(), 1)
		assert.True(t, v.Results()[0].Passed)

		s = parse(t, file+"kubeadm: {version: v1.37.2}\n")
		run(s, w.bare(t, s, keys).Up())
		for name, n := range w.nodes(t) {
			assert.Equal(t, "v1.37.2", n.Version, name)
			assert.True(t, n.Ready && !n.Cordoned, name)
		}

		w.kubectlApply(t, "before")
		key, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		var saved bytes.Buffer
		_, _, err = w.bare(t, s, keys).Backup(t.Context(), &saved, []age.Recipient{key.Recipient()})
		require.NoError(t, err)
		w.kubectlApply(t, "after")
		of := vault{key, saved.Bytes()}
		r, _, err := of.open()
		require.NoError(t, err)
		g, err = w.bare(t, s, keys).Restore(r.Contents, of.open)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"default/before"}, w.configMaps(t))
		run(s, w.bare(t, s, keys).Up())
		w.bareDown(t, s, keys)
		assert.True(t, b.Disk().Exists("/usr/bin/nvidia-container-runtime"), "which its owner has installed")
	})
}

// One of three servers that nobody here made joins again after its machine was installed again, and etcd forgets the old
// one; another leaves for good, and its machine is as it was.
func TestExternalServersWithKubeadm(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		machines := map[string]*guest.Machine{}
		meetAll := func() (keys string) {
			keys = filepath.Join(t.TempDir(), "known_hosts")
			for a, m := range machines {
				meet(t, keys, a, m)
			}
			return keys
		}
		for _, a := range []string{"10.0.0.40", "10.0.0.41", "10.0.0.42"} {
			machines[a] = w.external(t, a)
		}
		defer func() {
			for _, m := range machines {
				m.Kill()
			}
		}()
		keys := meetAll()
		s := parse(t, "name: three\nkubeadm: {vip: 10.0.0.50}\nnodes:\n  a: {role: server, external: ops@10.0.0.40}\n  b: {role: server, external: ops@10.0.0.41}\n  c: {role: server, external: ops@10.0.0.42}\n"+withKubeadm(t))
		_, err := w.bare(t, s, keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, machines["10.0.0.40"].EtcdMembers())

		machines["10.0.0.41"].Kill()
		machines["10.0.0.41"] = w.external(t, "10.0.0.41")
		keys = meetAll()
		g, err := w.bare(t, s, keys).NodeReplace(t.Context(), "b", false)
		require.NoError(t, err)
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c"}, machines["10.0.0.40"].EtcdMembers())
		for name, n := range w.nodes(t) {
			assert.True(t, n.Ready && !n.Cordoned, name)
		}
		plan, err := w.bare(t, s, keys).Up().Plan(t.Context())
		require.NoError(t, err)
		assert.False(t, plan.Changes())

		for _, name := range []string{"c", "b"} {
			g, err = w.bare(t, s, keys).NodeRemove(t.Context(), name, false)
			require.NoError(t, err)
			_, err = g.Run(t.Context(), w.listen(t))
			require.NoError(t, err)
			assert.NotContains(t, w.nodes(t), name)
			assert.NotContains(t, machines["10.0.0.40"].EtcdMembers(), name)
		}
		assert.Equal(t, []string{"a"}, machines["10.0.0.40"].EtcdMembers())
		assert.False(t, machines["10.0.0.41"].Disk().Exists("/var/lib/etcd/member"))
		w.bareDown(t, s, keys)
		assert.False(t, machines["10.0.0.40"].Disk().Exists("/etc/kubernetes"))
	})
}

// What is on a machine already is all said at once, with what to do, and nothing of it is changed, by up and by down.
func TestWhatKeepsKubeadmFromAnExternalMachine(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		a, b, keys := w.pair(t)
		defer a.Kill()
		defer b.Kill()
		for _, c := range []struct {
			make, undo string
			want       []string
		}{
			{"apt-get update; apt-get install -y containerd; mkdir -p /etc/containerd; echo docker >/etc/containerd/config.toml", "apt-get purge -y containerd; rm -r /etc/containerd",
				[]string{"it has containerd 1.7.28-0ubuntu1~24.04.1 already", "/etc/containerd/config.toml is there already"}},
			{"mkdir -p /etc/kubernetes/x; echo x >/etc/kubernetes/x/y; mkdir -p /var/lib/kubelet; echo x >/var/lib/kubelet/y", "rm -r /etc/kubernetes /var/lib/kubelet",
				[]string{"/etc/kubernetes has files already", "/var/lib/kubelet has files already, of a Kubernetes or etcd that is not homelab's"}},
			{"cp /proc/swaps /tmp/swaps; echo '/var/swap file 524284 0 -2' >>/proc/swaps", "cat /tmp/swaps >/proc/swaps; rm /tmp/swaps",
				[]string{"it swaps to /var/swap, with which kubelet does not start: run there, as root, swapoff -a"}},
			{"cp /etc/os-release /tmp/os; echo 'ID=fedora' >/etc/os-release", "cp /tmp/os /etc/os-release; rm /tmp/os",
				[]string{"its system is fedora, and Kubernetes is installed by packages of Debian and Ubuntu"}},
		} {
			require.Zero(t, b.Run(t.Context(), "root", c.make, io.Discard), c.make)
			before := b.Mutations()
			_, err := w.bare(t, parse(t, kubeadmStrangers(t)), keys).Up().Run(t.Context(), w.listen(t))
			for _, want := range append(c.want, "on the external machine b: ") {
				require.ErrorContains(t, err, want)
			}
			assert.Equal(t, before, b.Mutations())
			assert.False(t, b.Disk().Exists("/etc/kubernetes/homelab"))
			assert.False(t, a.Disk().Exists("/usr/bin/kubelet"), "nothing is changed on the other either")
			assert.False(t, a.Disk().Exists("/etc/kubernetes/homelab"))
			require.Zero(t, b.Run(t.Context(), "root", c.undo, io.Discard), c.undo)
		}
		for _, m := range []*guest.Machine{a, b} {
			require.Zero(t, m.Run(t.Context(), "root", "echo '/dev/zram0 partition 524284 0 100' >>/proc/swaps", io.Discard))
		}
		_, err := w.bare(t, parse(t, kubeadmStrangers(t)), keys).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "on the external machine a: it swaps to /dev/zram0")
		require.ErrorContains(t, err, "on the external machine b: it swaps to /dev/zram0")
		for _, m := range []*guest.Machine{a, b} {
			require.Zero(t, m.Run(t.Context(), "root", "echo Filename Type Size Used Priority >/proc/swaps", io.Discard))
		}
		_, err = w.bare(t, parse(t, kubeadmStrangers(t)), keys).Up().Run(t.Context(), w.listen(t))
		require.NoError(t, err)

		// Another cluster, of the same names and addresses, changes nothing, also where the mark is lost.
		other := parse(t, replace(t, kubeadmStrangers(t), "name: strangers", "name: neighbours"))
		untouched := func() {
			t.Helper()
			for _, m := range []*guest.Machine{a, b} {
				was := m.Mutations()
				_, err := w.bare(t, other, keys).Up().Run(t.Context(), w.listen(t))
				require.ErrorContains(t, err, "and not to neighbours: move its work and remove it there (kubeadm reset)")
				w.bareDown(t, other, keys)
				assert.Equal(t, was, m.Mutations())
				assert.True(t, m.Disk().Exists("/usr/bin/kubelet"))
			}
		}
		untouched()
		for _, m := range []*guest.Machine{a, b} {
			require.NoError(t, m.Disk().Remove("/etc/kubernetes/homelab/cluster"))
		}
		untouched()
	})
}
