package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// TestWhatAnotherRunHasMadeMeanwhile: a run that saw no machines, and waited while another
// made them, asks the servers that are there by then.
func TestWhatAnotherRunHasMadeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pvesim.OneGPU())
		defer w.close()
		spec := parse(t, small)
		cut := w.sim.Fail(pvesim.Rule{Path: ".*/clone", Times: -1, Status: 403, Message: "Permission check failed"})
		first := w.cluster(t, spec)
		_, err := first.Up().Run(t.Context(), w.listen(t))
		require.Error(t, err, "all but the machines is there")
		first.Close()
		cut.Remove()
		time.Sleep(time.Minute)

		late := w.cluster(t, spec)
		defer late.Close()
		var before moment
		g := late.Up()
		g.Before = func(context.Context) error {
			w.up(t, spec)
			before = w.now()
			return nil
		}
		_, err = g.Run(t.Context(), w.listen(t))
		require.NoError(t, err)
		assert.Equal(t, changes{}, before.changes(), "nothing is left to do")
		assert.Len(t, w.kube.Clusters(), 1)
	})
}
