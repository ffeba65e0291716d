package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A first server that is made again does not make a second cluster while those
// that have the cluster are away.
func TestNoSecondClusterWhileServersAreAway(t *testing.T) {
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		spec := parse(t, example(t, "eight-a100"))
		w.up(t, spec)
		first := spec.Servers()[0].Name
		c := w.cluster(t, spec)
		vm, err := c.Proxmox.VMs.Get(t.Context(), "homelab-"+spec.Name, first)
		require.NoError(t, err)
		require.NoError(t, c.Proxmox.VMs.Remove(t.Context(), vm))
		for _, n := range spec.Servers()[1:] {
			away := w.vm(t, n.Name)
			w.sim.SetGuestFaults(away.ID, guest.Faults{SSHRefuses: true})
		}
		_, err = c.Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, first+" would create the cluster, but another server may already have it")
		assert.Len(t, w.kube.Clusters(), 1)
	})
}
