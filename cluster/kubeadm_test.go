package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// kubeadmFile is a file of one server and one node with a GPU, whose Kubernetes kubeadm sets up.
func kubeadmFile(t testing.TB) string {
	t.Helper()
	return withPlatform(t, "one-gpu", "distribution: kubeadm\n")
}

// A cluster with kubeadm is created with its GPUs allocatable and verified, changes nothing the second time, comes back
// after its machines were off, gets another agent and loses it, refuses an older version and other networks before
// anything changes, goes to the next minor after a snapshot, gets other certificates, and is removed. No text says K3s.
func TestLifeWithKubeadm(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		file := kubeadmFile(t) // distribution: kubeadm
		spec := parse(t, file)
		for _, it := range w.looks(t, spec).Items {
			assert.NotContains(t, strings.ToLower(it.Step), "k3s")
		}
		report := w.up(t, spec)
		assert.Contains(t, changedSteps(report), "kubeadm/gpu1")
		nodes := w.nodes(t)
		require.Len(t, nodes, 2)
		for name, n := range nodes {
			assert.True(t, n.Ready, name)
			assert.Equal(t, "v1.36.5", n.Version)
			assert.Regexp(t, "^proxmox://one-gpu/", n.ProviderID)
		}
		assert.Equal(t, int64(1), nodes["gpu1"].Count("nvidia.com/gpu"))
		results, _, err := w.verify(t, spec)
		require.NoError(t, err)
		require.Len(t, results, 1)

		same := func() {
			before := w.now()
			assert.Empty(t, w.plan(t, spec))
			assert.Empty(t, changedSteps(w.up(t, spec)))
			assert.Equal(t, changes{}, before.changes())
		}
		same()
		for _, m := range w.guests() {
			m.Kill()
			require.NoError(t, m.Boot(t.Context()))
		}
		w.up(t, spec)
		same()

		bigger := parse(t, file+"nodes: {more: {role: agent, address: 192.168.1.81}}\n")
		w.up(t, bigger)
		assert.True(t, w.nodes(t)["more"].Ready)
		w.up(t, spec)
		assert.NotContains(t, w.nodes(t), "more")
		same()

		cl := w.cluster(t, spec)
		replace, err := cl.NodeReplace(t.Context(), "gpu1", true)
		require.NoError(t, err)
		_, err = replace.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		cl.Close()
		w.up(t, spec)
		assert.Equal(t, int64(1), w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		same()

		for _, c := range []struct{ key, want string }{
			{"version: v1.36.3", "Kubernetes cannot go from v1.36.5 to v1.36.3: Kubernetes cannot be downgraded"},
			{"podCIDR: 10.99.0.0/16", "the network of pods is 10.42.0.0/16, and should be 10.99.0.0/16"},
			{"vip: 192.168.1.99", "the address of the API is 192.168.1.61:6443, and should be 192.168.1.99:6443"},
			{"tlsSANs: [k8s.home.arpa]", "the list of names in the API's certificate is [], and should be [k8s.home.arpa]"},
		} {
			before := w.now()
			cl = w.cluster(t, parse(t, file+"kubeadm: {"+c.key+"}\n"))
			_, err := cl.Up().Run(t.Context(), w.listen(t))
			require.ErrorContains(t, err, c.want)
			assert.Empty(t, before.changes().Guests)
			cl.Close()
		}

		spec = parse(t, file+"kubeadm: {version: v1.37.2}\n")
		assert.NotEmpty(t, w.plan(t, spec))
		w.up(t, spec)
		for name, n := range w.nodes(t) {
			assert.Equal(t, "v1.37.2", n.Version, name)
			assert.True(t, n.Ready && !n.Cordoned, name)
		}
		assert.Contains(t, w.guests()["server1"].Mutations(), "etcdctl snapshot save")
		same()

		cl = w.cluster(t, spec)
		defer cl.Close()
		rotated := cl.RotateCerts()
		_, err = rotated.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		for _, c := range cl.Certs(t.Context()) {
			require.NoError(t, c.Err)
			assert.NotEmpty(t, c.All)
		}
		require.ErrorContains(t, (cluster.Backend{}).Lacks(spec, "k3s:upgrade"), "write kubeadm.version, and run homelab cluster:up")
		down, err := cl.Down(t.Context())
		require.NoError(t, err)
		_, err = down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Empty(t, w.guests())
	})
}

// With kubeadm a hub has what K3s would bring from other parts: volumes from NFS and addresses from Cilium, whose
// operator makes the kinds of its pools.
func TestHubWithKubeadm(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, kubeadmFile(t)+`
storage: {nfs: {server: 192.168.1.5, export: /export/k8s}}
loadBalancer: {kind: cilium, addresses: [192.168.1.200-192.168.1.219]}
hub: {hostname: hub.lab.example, auth: {kind: native, admins: [teacher]}}
`)
		report := w.up(t, spec)
		assert.Contains(t, changedSteps(report), "objects/cilium-pool")
		assert.Contains(t, w.kube.Clusters()[0].Names("deployments.apps"), "jupyterhub/hub")
		assert.Equal(t, []string{"/homelab"}, w.kube.Clusters()[0].Names("ciliumloadbalancerippools.cilium.io"))
		before := w.now()
		assert.Empty(t, w.plan(t, spec))
		assert.Empty(t, changedSteps(w.up(t, spec)))
		assert.Equal(t, changes{}, before.changes())
	})
}
