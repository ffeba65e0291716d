package proxmox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func claim(holder string) converge.LeaseClaim {
	return converge.LeaseClaim{What: "cluster a100", Holder: holder, Purpose: "cluster:up"}
}

// acquire takes the lease of cluster a100.
func acquire(ctx context.Context, c *proxmox.Client, mine converge.LeaseClaim, waiting func(converge.LeaseHolder) error) (context.Context, *converge.Lease, error) {
	return converge.AcquireLease(ctx, c.Lease("a100", "pve1"), mine, waiting)
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
func patient(converge.LeaseHolder) error { return nil }

// TestOneAtATime: of many runs from many machines one at a time has the lease, each has
// it once, and nothing is left.
func TestOneAtATime(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, _ *proxmox.Client) {
		var inside, had atomic.Int32
		var all sync.WaitGroup
		for i := range 6 {
			c := dialSim(t, sim)
			all.Go(func() {
				_, l, err := acquire(t.Context(), c, claim(fmt.Sprint("run", i)), patient)
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

// laptop is what a run runs on: it can be cut off, as by a closed lid.
type laptop struct {
	next   http.RoundTripper
	off    atomic.Bool
	sleeps atomic.Pointer[string] // with the next request of this method on its way, for five minutes
}

func (m *laptop) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.off.Load() {
		return nil, errors.New("this machine sleeps")
	}
	if with := m.sleeps.Load(); with != nil && r.Method == *with && m.sleeps.CompareAndSwap(with, nil) {
		time.Sleep(5 * time.Minute)
		r = r.WithContext(context.WithoutCancel(r.Context())) // it is in the kernel's hands
	}
	return m.next.RoundTrip(r)
}

// on is a client of its own on a machine of its own.
func on(t testing.TB, sim *pvesim.Sim) (*laptop, *proxmox.Client) {
	m := &laptop{}
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
		mine := claim("teacher@desk")
		mine.Process = "desk/17"
		run, asleep, err := acquire(t.Context(), lid, mine, patient)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		require.NoError(t, asleep.Check(t.Context()), "a long run keeps it")
		desk.off.Store(true)

		begin := time.Now()
		var told []string
		tell := func(h converge.LeaseHolder) error { told = append(told, h.String()); return nil }
		_, l, err := acquire(t.Context(), c, claim("student1@ci"), tell)
		require.NoError(t, err)
		assert.InDelta(t, 90, time.Since(begin).Seconds(), 30)
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "teacher@desk since ")
		assert.Contains(t, told[0], "(cluster:up)")

		require.NoError(t, run.Err(), "it does not know yet")
		desk.off.Store(false) // the lid opens
		require.ErrorIs(t, asleep.Check(t.Context()), converge.ErrLeaseLost, "and nothing is changed before it is asked")
		require.ErrorContains(t, asleep.Check(t.Context()), "student1@ci")
		time.Sleep(time.Minute)
		require.ErrorIs(t, context.Cause(run), converge.ErrLeaseLost)
		require.NoError(t, asleep.Release(t.Context()), "it is another's")
		require.NoError(t, l.Check(t.Context()))
		require.NoError(t, l.Release(t.Context()))

		_, left, err := acquire(t.Context(), lid, mine, patient)
		require.NoError(t, err)
		begin = time.Now()
		next := claim("teacher@desk")
		next.Dead = func(process string) bool { return process == "desk/17" }
		_, again, err := acquire(t.Context(), lid, next, patient)
		require.NoError(t, err)
		assert.Less(t, time.Since(begin), 10*time.Second, "the process is gone, so there is nothing to wait for")
		require.NoError(t, left.Release(t.Context()))
		require.NoError(t, again.Release(t.Context()))
		assert.Zero(t, leases(t, c))
	})
}

// TestALidThatClosesOverTheEnd: a machine falls asleep with the request on its way that removes
// its lease. By the time that it arrives another has the lease, and keeps it.
func TestALidThatClosesOverTheEnd(t *testing.T) {
	for _, asleep := range []string{http.MethodPut, http.MethodDelete} {
		bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			desk, lid := on(t, sim)
			_, l, err := acquire(t.Context(), lid, claim("teacher@desk"), patient)
			require.NoError(t, err)
			time.Sleep(time.Second)
			desk.sleeps.Store(&asleep)
			released := make(chan error, 1)
			go func() { released <- l.Release(t.Context()) }()

			run, mine, err := acquire(t.Context(), c, claim("student1@ci"), patient)
			require.NoError(t, err)
			time.Sleep(10 * time.Minute)
			require.NoError(t, <-released)
			require.NoError(t, run.Err())
			require.NoError(t, mine.Check(t.Context()))
			assert.Equal(t, 1, leases(t, c), asleep)
			require.NoError(t, mine.Release(t.Context()))
			assert.Zero(t, leases(t, c))
		})
	}
}

// TestWhoWillNotWait: the caller decides, and what is in the way is told.
func TestWhoWillNotWait(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.NoError(t, err)
		_, _, err = acquire(t.Context(), c, claim("student1@ci"), func(h converge.LeaseHolder) error {
			return &converge.LeaseHeldError{What: "cluster a100", LeaseHolder: h}
		})
		require.ErrorContains(t, err, "teacher@desk since ")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, _, err = acquire(ctx, c, claim("student1@ci"), patient)
		require.ErrorContains(t, err, "changes cluster a100")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, of, err := converge.AcquireLease(t.Context(), c.Lease("b200", "pve1"), claim("student3@ci"), patient)
		require.NoError(t, err, "another cluster does not matter")
		require.NoError(t, errors.Join(of.Release(t.Context()), l.Release(t.Context())))
	})
}

// TestSomebodysVM: a VM of somebody else where the lease would be is left alone.
func TestSomebodysVM(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.NoError(t, err)
		vmid := 0
		for _, r := range residents(t, c) {
			if r.Name == "homelab-a100-lease" {
				vmid = r.VMID
			}
		}
		require.NoError(t, l.Release(t.Context()))
		sim.AddVM(pvesim.VM{ID: vmid, Node: "pve1", Name: "theirs"})
		_, _, err = acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.ErrorContains(t, err, fmt.Sprintf("VM %d (theirs) on pve1 belongs to somebody else", vmid))
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
				_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
				if err == nil {
					time.Sleep(time.Minute)
					_ = l.Release(t.Context()) // may say that it stays
				}
				desk.off.Store(true)
				_, next, err := acquire(t.Context(), dialSim(t, sim), claim("student1@ci"), patient)
				require.NoError(t, err, "after request %d", n)
				require.NoError(t, next.Release(t.Context()))
				assert.Zero(t, leases(t, dialSim(t, sim)))
			})
		}
	}
}

// where is the VM that the lease is, as Proxmox has it.
func where(t testing.TB, sim *pvesim.Sim) pvesim.VMState {
	for _, vm := range sim.VMs() {
		if vm.Name == "homelab-a100-lease" {
			return vm
		}
	}
	require.FailNow(t, "there is no lease")
	return pvesim.VMState{}
}

// TestALeaseThatABackupHolds: Proxmox writes no locked VM, so nobody is taken for dead
// meanwhile, and nobody is sent away.
func TestALeaseThatABackupHolds(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		held, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.NoError(t, err)
		sim.LockVM(where(t, sim).ID, "backup")
		next := make(chan error, 1)
		go func() {
			_, second, err := acquire(t.Context(), dialSim(t, sim), claim("student1@ci"), patient)
			if err == nil {
				err = second.Release(t.Context())
			}
			next <- err
		}()
		time.Sleep(4 * time.Minute)
		require.ErrorContains(t, l.Check(t.Context()), "(homelab-a100-lease) on pve1 is locked (backup)")
		sim.LockVM(where(t, sim).ID, "")
		time.Sleep(30 * time.Second)
		require.NoError(t, l.Check(t.Context()))
		require.NoError(t, held.Err())
		sim.LockVM(where(t, sim).ID, "snapshot")
		time.AfterFunc(5*time.Second, func() { sim.LockVM(where(t, sim).ID, "") })
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-next)
		assert.Zero(t, leases(t, c))
	})
}

// TestWhereALeaseIs: on a host of the file where one is online; anyone who asks elsewhere finds it.
func TestWhereALeaseIs(t *testing.T) {
	bubble(t, pvesim.TwoHosts(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		second := c.Lease("a100", "none", "pve2", "pve1")
		_, l, err := converge.AcquireLease(t.Context(), second, claim("teacher@desk"), patient)
		require.NoError(t, err)
		assert.Equal(t, "pve2", where(t, sim).Node)
		assert.Equal(t, fmt.Sprintf("VM %d (homelab-a100-lease) on pve2", where(t, sim).ID), second.String())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = acquire(ctx, dialSim(t, sim), claim("student1@ci"), patient)
		require.ErrorContains(t, err, "teacher@desk since ")

		sim.SetRole("HomelabOperator", append(pvesim.OperatorPrivileges(), "VM.Migrate")...)
		post(t, sim, fmt.Sprintf("/nodes/pve2/qemu/%d/migrate", where(t, sim).ID), url.Values{"target": {"pve1"}})
		time.Sleep(time.Minute)
		assert.Equal(t, "pve1", where(t, sim).Node)
		require.NoError(t, l.Check(t.Context()), "the host is emptied for maintenance, and the lease goes along")
		require.NoError(t, l.Release(t.Context()))
		assert.Zero(t, leases(t, c))
	})
}

// TestALeaseOnAHostThatIsDown: nobody can see it or take it over, and what to do is said.
func TestALeaseOnAHostThatIsDown(t *testing.T) {
	m := pvesim.TwoHosts()
	m.Hosts[1].Offline = true
	vmid := 0
	bubble(t, pvesim.TwoHosts(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		_, l, err := acquire(t.Context(), c, claim("teacher@desk"), patient)
		require.NoError(t, err)
		vmid = where(t, sim).ID
		require.NoError(t, l.Release(t.Context()))
	})
	m.VMs = append(m.VMs, pvesim.VM{ID: vmid, Node: "pve2", Name: "homelab-a100-lease"})
	bubble(t, m, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		begin := time.Now()
		_, _, err := acquire(t.Context(), c, claim("student1@ci"), patient)
		require.ErrorContains(t, err, fmt.Sprintf("the lease is VM %d on pve2, which is offline, so nobody can see whether another run still holds it", vmid))
		require.ErrorContains(t, err, fmt.Sprintf("rm /etc/pve/nodes/pve2/qemu-server/%d.conf", vmid))
		assert.InDelta(t, 10, time.Since(begin).Minutes(), 1, "it may come back")
	})
}

// TestWhatIsUnderWayStopsToo: anyone who has lost the lease changes nothing more, in the
// middle of an act either.
func TestWhatIsUnderWayStopsToo(t *testing.T) {
	bubble(t, pvesim.OneGPU(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		desk, lid := on(t, sim)
		_, l, err := acquire(t.Context(), lid, claim("teacher@desk"), patient)
		require.NoError(t, err)
		done := lid.Guard(l.Check)
		desk.off.Store(true)
		_, next, err := acquire(t.Context(), c, claim("student1@ci"), patient)
		require.NoError(t, err)
		sim.AddVM(pvesim.VM{ID: 200, Node: "pve1", Name: "worker"})
		desk.off.Store(false)
		vm, err := lid.VMs.GetByID(t.Context(), 200)
		require.NoError(t, err)
		require.ErrorIs(t, lid.VMs.Remove(t.Context(), vm), converge.ErrLeaseLost)
		require.ErrorIs(t, lid.VMs.Start(t.Context(), vm), converge.ErrLeaseLost)
		require.NoError(t, l.Release(t.Context()))
		done()
		require.NoError(t, lid.VMs.Remove(t.Context(), vm), "the guard is off")
		require.NoError(t, next.Release(t.Context()))
	})
}

func post(t testing.TB, sim *pvesim.Sim, path string, form url.Values) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://pve1:8006/api2/json"+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	id, value := sim.Token()
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "PVEAPIToken="+id+"="+value)
	res, err := sim.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func residents(t testing.TB, c *proxmox.Client) []proxmox.Resident {
	all, err := c.Hosts.Residents(t.Context())
	require.NoError(t, err)
	return all
}
