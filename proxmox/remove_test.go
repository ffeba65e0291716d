package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A VM is not removed if a read that comes before its destruction fails, whichever read that is:
// what runs there, who owns it, and what disks it has, is not known then.
func TestNothingIsDestroyedThatCouldNotBeRead(t *testing.T) {
	reads := 1
	for nth := 0; nth <= reads; nth++ { // the first one with no failure counts them
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			require.NoError(t, c.VMs.Stop(t.Context(), vm))
			another := dialSim(t, sim) // which knows nothing of earlier tasks
			before := len(sim.Requests())
			if nth > 0 {
				sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: ".*", Skip: nth - 1, Status: http.StatusForbidden, Message: "Permission check failed"})
			}
			err := another.VMs.Remove(t.Context(), vm)
			did := sim.Requests()[before:]
			if nth == 0 {
				require.NoError(t, err)
				reads = slices.IndexFunc(did, func(r pvesim.Request) bool { return r.Mutating })
				require.Positive(t, reads)
				return
			}
			failed := did[nth-1].Path
			require.Error(t, err, failed)
			assert.Empty(t, mutations(sim, before), failed)
		})
	}
}

// Of VMs that wait for their turn to be destroyed when the run is cancelled, none counts as removed.
func TestCancelledRemovalsAreNotDone(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		var vms []*proxmox.VM
		for i := range 7 {
			spec := node(t, c, fmt.Sprintf("cp%d", i))
			spec.Running = false
			vm, err := c.VMs.Ensure(t.Context(), spec)
			require.NoError(t, err)
			vms = append(vms, vm)
		}
		sim.Fail(pvesim.Rule{Method: http.MethodDelete, Path: ".*/qemu/.*", TaskDelay: time.Hour, Times: -1})
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		time.AfterFunc(time.Minute, func() { cancel(interrupted) })
		errs := make([]error, len(vms))
		var all sync.WaitGroup
		for i, vm := range vms {
			all.Go(func() { errs[i] = c.VMs.Remove(ctx, vm) })
		}
		all.Wait()
		for i, vm := range vms {
			assert.ErrorIs(t, errs[i], context.Canceled, vm.Name)
		}
	})
}
