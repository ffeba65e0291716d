package proxmox_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func TestResourcePool(t *testing.T) {
	m := pvesim.EightA100()
	m.Pools = []pvesim.Pool{{ID: "k8s"}, {ID: "k8s/gpu"}}
	bubble(t, m, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := scratchNode(t, c)
		spec.Pool = "k8s"
		in := func(pool string) *proxmox.VM {
			vm, err := c.VMs.Get(t.Context(), owner, spec.Name)
			require.NoError(t, err)
			require.Equal(t, pool, vm.Pool)
			return vm
		}
		since := len(sim.Requests())
		require.NoError(t, ensure(t.Context(), c, spec))
		vm := in("k8s")
		assert.NotContains(t, mutations(sim, since), "PUT /pools", "the clone names it")
		assert.Empty(t, spec.Diff(vm))

		spec.Pool = ""
		assert.Empty(t, spec.Diff(vm), "a file that names none leaves it there")
		spec.Pool = "k8s/gpu"
		diff := spec.Diff(vm)
		assert.Equal(t, "pool: k8s → k8s/gpu", diff.String())
		assert.Equal(t, converge.Update, diff.Effect())
		require.NoError(t, c.VMs.Shape(t.Context(), spec, vm))
		assert.True(t, in("k8s/gpu").Running)

		spec.Pool, spec.Cores = "k8s", 6
		sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: "/pools", Drop: true, After: true})
		require.NoError(t, ensure(t.Context(), c, spec), "the request succeeded, and its answer was lost")
		assert.Equal(t, 6, in("k8s").Cores)

		spec.Pool = "none"
		require.ErrorContains(t, ensure(t.Context(), c, spec), "pool 'none' does not exist")
	})
}
