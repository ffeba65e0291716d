package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
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
