package cluster_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func TestInventoryOfGPUs(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, parse(t, gpuNodes("2", "1")))
		w.sim.AddVM(stranger(300, "81:00"))
		w.sim.AddVM(stranger(301, "a1:00"))
		w.sim.AddVM(stranger(302, "a1:00.0"))
		w.sim.AddMapping("other_n", "made by homelab for cluster other", "node=pve1,path=0000:c1:00,id=10de:20f1")
		c := w.cluster(t, parse(t, small))
		gpus, err := c.GPUs(t.Context())
		require.NoError(t, err)
		var states, nodes []string
		for _, g := range gpus {
			states, nodes = append(states, g.State), append(nodes, g.Node)
		}
		assert.Equal(t, []string{cluster.GPUOurs, cluster.GPUOurs, cluster.GPUOurs, cluster.GPUFree, cluster.GPUTaken, cluster.GPUConflict, cluster.GPUTaken, cluster.GPUFree}, states)
		assert.Equal(t, []string{"gpu1", "gpu1", "gpu2", "", "", "", "", ""}, nodes)
		assert.Equal(t, "vfio-pci", gpus[0].Driver)
		assert.Empty(t, gpus[4].Driver)
		assert.Equal(t, "300 win11, stopped", gpus[4].Owners[0].String())
		assert.Equal(t, []string{"small_gpu1"}, gpus[0].Mappings)
		assert.Len(t, gpus[0].Owners, 1)
		assert.True(t, gpus[0].Owners[0].Ours)
		assert.False(t, gpus[0].Owners[0].Pooled)
		assert.Contains(t, gpus[5].Problem, "0000:a1:00 on pve1 cannot serve all who may want them: VM 301 (win11) by address as hostpci0, stopped; VM 302")
	})
}

// What does not answer leaves the rest of an inventory readable.
func TestInventoryWithoutAnAnswer(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		silent := false
		w.tap = func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if silent {
					return nil, errors.New("no way")
				}
				return next.RoundTrip(r)
			})
		}
		c := w.cluster(t, parse(t, small))
		silent = true
		inv := c.Inventory(t.Context(), true)
		require.Error(t, inv.VMs)
		require.Error(t, inv.Kube)
		require.ErrorIs(t, inv.Err(), inv.VMs)
		assert.Len(t, inv.Machines, len(c.Spec().Machines()))
		silent = false
		require.NoError(t, c.Inventory(t.Context(), false).Err())
	})
}
