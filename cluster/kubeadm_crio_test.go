package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A cluster with CRI-O is created with its GPUs allocatable and verified, and changes nothing the second time. A CRI-O
// that started without NVIDIA's runtime finds it again, another runtime is refused before anything changes, and the next
// minor brings its CRI-O.
func TestLifeWithCRIO(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		file := kubeadmFile(t)
		with := func(keys string) *spec.Spec {
			s := parse(t, file+"kubeadm: {"+keys+"}\n")
			s.Kubeadm.RuntimeKey = guest.CRIOFingerprint
			return s
		}
		crio := with("runtime: crio")
		w.up(t, crio)
		assert.Equal(t, int64(1), w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		results, _, err := w.verify(t, crio)
		require.NoError(t, err)
		require.Len(t, results, 1)
		same := func(s *spec.Spec) {
			before := w.now()
			assert.Empty(t, w.plan(t, s))
			assert.Empty(t, changedSteps(w.up(t, s)))
			assert.Equal(t, changes{}, before.changes())
		}
		same(crio)

		w.inside(t, "gpu1", "mv /usr/bin/nvidia-container-runtime /root && systemctl restart crio && mv /root/nvidia-container-runtime /usr/bin")
		assert.Contains(t, changedSteps(w.up(t, crio)), "driver/gpu1")
		assert.Equal(t, int64(1), w.nodes(t)["gpu1"].Count("nvidia.com/gpu"))
		same(crio)

		before := w.now()
		cl := w.cluster(t, parse(t, file))
		_, err = cl.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "its containers run in crio, and should in containerd: write kubeadm.runtime as it was, or recreate the machine (homelab node:replace -node=server1)")
		assert.Empty(t, before.changes().Guests)
		cl.Close()

		next := with("runtime: crio, version: v1.37.2")
		w.up(t, next)
		assert.Equal(t, "v1.37.2", w.nodes(t)["gpu1"].Version)
		assert.Contains(t, w.guests()["gpu1"].Mutations(), "package cri-o 1.37.1-1.1 installed")
		same(next)

		cl = w.cluster(t, next)
		defer cl.Close()
		down, err := cl.Down(t.Context())
		require.NoError(t, err)
		_, err = down.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Empty(t, w.guests())
	})
}
