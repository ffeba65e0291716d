package proxmox_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// TestAHostThatDoesNotAnswerForAWhile: what is waited for goes on meanwhile, and so does
// the wait.
func TestAHostThatDoesNotAnswerForAWhile(t *testing.T) {
	silent := func(sim *pvesim.Sim, path string) {
		sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: path, Times: 24, Status: 595, Message: "Connection refused"})
	}
	t.Run("agent", func(t *testing.T) {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			silent(sim, ".*/agent/info")
			require.NoError(t, c.Agents.Wait(t.Context(), vm))
		})
	})
	t.Run("task", func(t *testing.T) {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			rule := sim.Fail(pvesim.Rule{Mutating: true, Path: ".*/download-url", TaskDelay: time.Minute, After: true})
			sim.Fail(pvesim.Rule{
				Method: http.MethodGet, Path: "/nodes/pve1/tasks", Times: 24, Status: 595, Message: "Connection refused",
				When: func(r pvesim.Request) bool { return r.Params.Has("since") }, // it is watched
			})
			fetch(t, c, "pve1")
			assert.Equal(t, 1, rule.Hits())
			downloads := 0
			for _, r := range sim.Requests() {
				if r.Mutating {
					downloads++
				}
			}
			assert.Equal(t, 1, downloads, "it is not started again")
		})
	})
	t.Run("lock", func(t *testing.T) {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			sim.LockVM(vm.VMID, "backup")
			vm.Locked = "backup"
			begun := time.Now()
			away := sim.Fail(pvesim.Rule{
				Method: http.MethodGet, Path: "/nodes/pve1/tasks", Skip: 1, Times: 24, Status: 595, Message: "Connection refused",
			})
			time.AfterFunc(10*time.Second, func() { sim.LockVM(vm.VMID, "") })
			require.NoError(t, c.VMs.Remove(t.Context(), vm))
			assert.Equal(t, 24, away.Hits())
			assert.Greater(t, time.Since(begun), 10*time.Second)
		})
	})
	t.Run("lock, for good", func(t *testing.T) {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			sim.LockVM(vm.VMID, "backup")
			vm.Locked = "backup"
			sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "/nodes/pve1/tasks", Skip: 1, Times: -1, Status: 595, Message: "No route to host"})
			begun := time.Now()
			err := c.VMs.Remove(t.Context(), vm)
			require.ErrorContains(t, err, "No route to host")
			require.ErrorContains(t, err, "is locked (backup)")
			assert.InDelta(t, 2*time.Minute, time.Since(begun), float64(time.Minute))
		})
	})
	t.Run("task, for good", func(t *testing.T) {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "/nodes/pve1/tasks", Times: -1, Status: 595, Message: "No route to host"})
			_, err := c.Storages.Fetch(t.Context(), "pve1", "local", noble(t))
			require.ErrorContains(t, err, "No route to host")
		})
	})
}

// TestAHostThatIsGoneIsTheCause: a wait for an agent that ends while the host does not answer
// says so, and not that the guest is silent; one that ends after it came back does not.
func TestAHostThatIsGoneIsTheCause(t *testing.T) {
	for times, blamed := range map[int]bool{-1: true, 3: false} {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			sim.Fail(pvesim.Rule{Path: ".*/status/start", Guest: &guest.Faults{AgentNeverAnswers: true}})
			vm := booted(t, c)
			sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: ".*/agent/info", Times: times, Status: 595, Message: "No route to host"})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			err := c.Agents.Wait(ctx, vm)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var said *api.Error
			assert.Equal(t, blamed, errors.As(err, &said) && said.Status == 595, "%v", err)
			assert.Equal(t, blamed, strings.Contains(err.Error(), "and now pve1 does not answer either"), "%v", err)
		})
	}
}

// TestTheWaitForASlowSilentHost: the time is measured, and not the pauses alone, where each
// question takes long to fail.
func TestTheWaitForASlowSilentHost(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		vm := booted(t, c)
		sim.Fail(pvesim.Rule{Mutating: true, Path: ".*/status/.*", TaskDelay: 12 * time.Hour, After: true})
		sim.Fail(pvesim.Rule{
			Method: http.MethodGet, Path: "/nodes/pve1/tasks", Times: -1, Status: 595, Message: "Connection timed out", Delay: 25 * time.Second,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		err := c.VMs.Stop(ctx, vm)
		require.ErrorContains(t, err, "Connection timed out")
		assert.Less(t, time.Since(begun), 20*time.Minute, "six tries of about two minutes")
	})
}

// TestAHostThatRefusesIsNotSilent: a token that may not list the VMs of a host is told so, and
// not that the host does not answer.
func TestAHostThatRefusesIsNotSilent(t *testing.T) {
	for status, is := range map[int]func(*api.Error) bool{
		http.StatusForbidden:    (*api.Error).IsPermission,
		http.StatusUnauthorized: func(e *api.Error) bool { return errors.Is(e, proxmox.ErrUnauthorized) },
	} {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			time.Sleep(time.Minute)
			sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: "/nodes/pve1/qemu", Times: -1, Status: status, Message: "Permission check failed"})
			_, err := c.VMs.Get(t.Context(), owner, vm.Name)
			var said *api.Error
			require.ErrorAs(t, err, &said)
			assert.True(t, is(said), "%v", err)
			assert.NotContains(t, err.Error(), "does not answer")
		})
	}
}
