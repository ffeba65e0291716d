package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pvesim"
	"github.com/cps-gpu/homelab/secret"
)

func lease(holder string) proxmox.LeaseRequest {
	return proxmox.LeaseRequest{Cluster: "a100", Host: "pve1", Holder: holder, Purpose: "cluster:up"}
}

func leases(t testing.TB, c *proxmox.Client) int {
	n := 0
	for _, r := range residents(t, c) {
		if r.Name == "homelab-a100-lease" {
			n++
		}
	}
	return n
}

// patient is for those who have time.
func patient(proxmox.Held) error { return nil }

// TestOneAtATime: of many runs from many machines one at a time has the lease, each has
// it once, and nothing is left.
func TestOneAtATime(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, _ *proxmox.Client) {
		var inside, had atomic.Int32
		var all sync.WaitGroup
		for i := range 6 {
			c := dialSim(t, sim)
			all.Go(func() {
				_, l, err := c.Acquire(t.Context(), lease(fmt.Sprint("run", i)), patient)
				if !assert.NoError(t, err) {
					return
				}
				assert.EqualValues(t, 1, inside.Add(1), "another is inside")
				time.Sleep(time.Duration(30+i*40) * time.Second)
				assert.NoError(t, l.Check(t.Context()))
				had.Add(1)
				inside.Add(-1)
				assert.NoError(t, l.Release(t.Context()))
			})
		}
		all.Wait()
		assert.EqualValues(t, 6, had.Load())
		assert.Zero(t, leases(t, dialSim(t, sim)))
	})
}

// machine is one that a run runs on: it can be cut off, as by a closed lid.
type machine struct {
	next http.RoundTripper
	off  atomic.Bool
}

func (m *machine) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.off.Load() {
		return nil, errors.New("this machine sleeps")
	}
	return m.next.RoundTrip(r)
}

// on is a client of its own on a machine of its own.
func on(t testing.TB, sim *pvesim.Sim) (*machine, *proxmox.Client) {
	m := &machine{}
	id, value := sim.Token()
	c, err := proxmox.Dial(t.Context(), proxmox.Config{
		Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(value), HTTPClient: sim.Client(),
		Wrap: func(rt http.RoundTripper) http.RoundTripper { m.next = rt; return m },
	})
	require.NoError(t, err)
	return m, c
}

// TestADeadHolder: who has died is known by its silence, and at once where somebody can tell.
func TestADeadHolder(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		desk, lid := on(t, sim)
		mine := lease("ada@desk")
		mine.Process = "desk/17"
		run, asleep, err := lid.Acquire(t.Context(), mine, patient)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		require.NoError(t, asleep.Check(t.Context()), "a long run keeps it")
		desk.off.Store(true)

		begin := time.Now()
		var told []string
		tell := func(h proxmox.Held) error { told = append(told, h.String()); return nil }
		_, l, err := c.Acquire(t.Context(), lease("bob@ci"), tell)
		require.NoError(t, err)
		assert.InDelta(t, 90, time.Since(begin).Seconds(), 30)
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "ada@desk since ")
		assert.Contains(t, told[0], "(cluster:up)")

		require.NoError(t, run.Err(), "it does not know yet")
		desk.off.Store(false) // the lid opens
		require.ErrorIs(t, asleep.Check(t.Context()), proxmox.ErrLeaseLost, "and nothing is changed before it is asked")
		require.ErrorContains(t, asleep.Check(t.Context()), "bob@ci")
		time.Sleep(time.Minute)
		require.ErrorIs(t, context.Cause(run), proxmox.ErrLeaseLost)
		require.NoError(t, asleep.Release(t.Context()), "it is another's")
		require.NoError(t, l.Check(t.Context()))
		require.NoError(t, l.Release(t.Context()))

		_, left, err := lid.Acquire(t.Context(), mine, patient)
		require.NoError(t, err)
		begin = time.Now()
		next := lease("ada@desk")
		next.Dead = func(process string) bool { return process == "desk/17" }
		_, again, err := lid.Acquire(t.Context(), next, patient)
		require.NoError(t, err)
		assert.Less(t, time.Since(begin), 10*time.Second, "the process is gone, so there is nothing to wait for")
		require.NoError(t, left.Release(t.Context()))
		require.NoError(t, again.Release(t.Context()))
		assert.Zero(t, leases(t, c))
	})
}

// TestWhoWillNotWait: the caller decides, and what is in the way is told.
func TestWhoWillNotWait(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		_, l, err := c.Acquire(t.Context(), lease("ada@desk"), patient)
		require.NoError(t, err)
		_, _, err = c.Acquire(t.Context(), lease("bob@ci"), func(h proxmox.Held) error { return &proxmox.HeldError{Cluster: "a100", Held: h} })
		require.ErrorContains(t, err, "ada@desk since ")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, _, err = c.Acquire(ctx, lease("bob@ci"), patient)
		require.ErrorContains(t, err, "changes cluster a100")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		other := lease("eve@ci")
		other.Cluster = "b200"
		_, of, err := c.Acquire(t.Context(), other, patient)
		require.NoError(t, err, "another cluster is nobody's business")
		require.NoError(t, errors.Join(of.Release(t.Context()), l.Release(t.Context())))
	})
}

// TestSomebodysVM: a VM of somebody else where the lease would be is left alone.
func TestSomebodysVM(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		_, l, err := c.Acquire(t.Context(), lease("ada@desk"), patient)
		require.NoError(t, err)
		vmid := 0
		for _, r := range residents(t, c) {
			if r.Name == "homelab-a100-lease" {
				vmid = r.VMID
			}
		}
		require.NoError(t, l.Release(t.Context()))
		sim.AddVM(pvesim.VM{ID: vmid, Node: "pve1", Name: "theirs"})
		_, _, err = c.Acquire(t.Context(), lease("ada@desk"), patient)
		require.ErrorContains(t, err, fmt.Sprintf("VM %d (theirs) on pve1 is somebody else's", vmid))
		names := []string{}
		for _, r := range residents(t, c) {
			names = append(names, r.Name)
		}
		assert.Equal(t, []string{"theirs"}, names)
	})
}

// TestALeaseWhenAnythingFails cuts each request of a lease's life: it never has two
// holders, and the next run gets it.
func TestALeaseWhenAnythingFails(t *testing.T) {
	for n := range 12 {
		for _, after := range []bool{false, true} {
			bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, _ *proxmox.Client) {
				desk, c := on(t, sim)
				sim.Fail(pvesim.Rule{Skip: n, Drop: true, After: after, Path: "^/(nodes/pve1/qemu.*|nodes/pve1/tasks.*)$"})
				_, l, err := c.Acquire(t.Context(), lease("ada@desk"), patient)
				if err == nil {
					time.Sleep(time.Minute)
					_ = l.Release(t.Context()) // may say that it stays
				}
				desk.off.Store(true)
				_, next, err := dialSim(t, sim).Acquire(t.Context(), lease("bob@ci"), patient)
				require.NoError(t, err, "after request %d", n)
				require.NoError(t, next.Release(t.Context()))
				assert.Zero(t, leases(t, dialSim(t, sim)))
			})
		}
	}
}

func residents(t testing.TB, c *proxmox.Client) []proxmox.Resident {
	all, err := c.Residents(t.Context())
	require.NoError(t, err)
	return all
}
