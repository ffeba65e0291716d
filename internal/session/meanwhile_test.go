package session

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// What another run removes after it was seen is made again, and not waited for: a
// cluster:up that begins while a cluster:down still runs.
func TestWhatAnotherTakesAwayAfterItWasSeen(t *testing.T) {
	for name, show := range map[string]func(*console.Console){
		"plain": func(*console.Console) {}, "json": func(c *console.Console) { c.JSON = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := pvesim.New(pvesim.OneGPU(), pvesim.Options{})
				defer sim.Close()
				var machine, guest atomic.Bool
				machine.Store(true)
				other, _ := atDesk(t, sim)
				ctx, theirs := other.hold(t.Context(), false)
				require.NoError(t, theirs.acquire(ctx))
				time.AfterFunc(time.Minute, func() {
					machine.Store(false)
					theirs.release(ctx)
				})
				s, talk := atDesk(t, sim)
				show(s.Console)
				report, err := s.run(t.Context(), aMachineAndItsGuest(&machine, &guest), &converge.Agreement{}, false, false)
				require.NoError(t, err)
				made, _ := report.Step("machine")
				assert.Equal(t, converge.Changed, made.Kind)
				assert.NotContains(t, talk.String(), "stopped")
				assert.NotContains(t, talk.String(), "cancelled")
				assert.NotContains(t, talk.String(), "not started")
			})
		})
	}
}

// aMachineAndItsGuest is a machine, which is made, and what comes up by itself on it.
func aMachineAndItsGuest(machine, guest *atomic.Bool) *converge.Graph {
	missing := func(is bool) converge.Diff {
		if is {
			return nil
		}
		return converge.Missing("running")
	}
	var g converge.Graph
	made := g.Add(&converge.Resource[bool]{
		ID:      "machine",
		Observe: func(context.Context) (bool, error) { return machine.Load(), nil },
		Diff:    missing,
		Apply: func(context.Context, bool) error {
			machine.Store(true)
			time.AfterFunc(30*time.Second, func() { guest.Store(true) })
			return nil
		},
	})
	up := g.Add(&converge.Resource[bool]{
		ID:      "guest",
		Observe: func(context.Context) (bool, error) { return guest.Load(), nil },
		Diff:    missing,
	}, made)
	g.Add(&converge.Resource[bool]{ID: "more", Observe: func(context.Context) (bool, error) { return true, nil }, Diff: missing}, up)
	return &g
}
