package cluster_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestWhatAnotherRunHasMadeMeanwhile: a run that saw no machines, and waited while another
// made them, asks the servers that are there by then.
func TestWhatAnotherRunHasMadeMeanwhile(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
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
		g.BeforeActing = func(context.Context) error {
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

// TestOneMachineWithoutAWayInWhileOthersBoot: that nobody can tell yet what the others are is
// no reason to do nothing at all.
func TestOneMachineWithoutAWayInWhileOthersBoot(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, replace(t, duo, ", gpus: 1", ""))
		w.up(t, spec)
		w.keys = named(t)
		require.Zero(t, w.guests()["wk1"].Run(t.Context(), "root", "systemctl stop qemu-guest-agent", io.Discard))
		cp1 := w.guests()["cp1"]
		cp1.Kill()
		require.NoError(t, cp1.Boot(t.Context()))
		report, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "guest/wk1: these machines of the cluster accept no key of this run")
		s, _ := report.Step("login")
		assert.NotEqual(t, converge.FailedStep, s.Kind, "%v", s.Err)
	})
}
