package pvesim

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func TestClonesOfATemplateRunTogether(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		began := time.Now()
		var tasks []reply
		for i := range 8 {
			tasks = append(tasks, c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", strconv.Itoa(201+i)))
		}
		for _, r := range tasks {
			assert.Equal(t, "OK", c.wait(r))
		}
		assert.Less(t, time.Since(began), 9*time.Second, "only the allocations follow each other")
		assert.Greater(t, time.Since(began), 6*time.Second, "the allocations follow each other")
	})
}

func TestManyAllocationsHitTheStorageLock(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		var tasks []reply
		for i := range 40 {
			tasks = append(tasks, c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", strconv.Itoa(201+i)))
		}
		good, timeouts := 0, 0
		for _, r := range tasks {
			switch exit := c.wait(r); exit {
			case "OK":
				good++
			case "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout":
				timeouts++
			default:
				t.Error(exit)
			}
		}
		assert.Positive(t, good)
		assert.Positive(t, timeouts)
		made := 0
		for _, v := range s.VMs() {
			if v.ID > 200 && v.ID < 900 {
				made++
			}
		}
		assert.Equal(t, good, made, "a failed clone leaves no machine")
		owners := map[int]bool{}
		for _, v := range s.Volumes() {
			if v.Owner > 200 && v.Owner < 900 {
				owners[v.Owner] = true
			}
		}
		assert.Len(t, owners, good, "and no disks")
	})
}

// A VM whose disks cannot be removed is gone all the same. Its task says that it has warned
// since qemu-server 9.2 (destroy_vm of PVE/QemuServer.pm, log_warn in place of warn).
func TestDisksThatStayAreWarnedOf(t *testing.T) {
	for version, says := range map[string]string{"9.2.11": "WARNINGS: 2", "9.1.4": "OK"} {
		disksThatStay(t, version, says)
	}
}

func disksThatStay(t *testing.T, version, says string) {
	m := EightA100()
	m.Version = version
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "200")))
		held := func() { // by somebody who does not come to an end
			s.state.Mu.Lock()
			defer s.state.Mu.Unlock()
			for _, st := range s.state.Hosts["pve1"].Stores {
				_, err := world.Worker{State: s.state}.LockStorage(st)
				require.NoError(t, err)
			}
		}
		left := func() (names []string) {
			for _, v := range s.Volumes() {
				if v.Owner == 200 {
					names = append(names, v.ID)
				}
			}
			return names
		}
		before := left()
		require.NotEmpty(t, before)
		held()
		exit := c.wait(c.do("DELETE", "/nodes/pve1/qemu/200", "purge", "1"))
		assert.Equal(t, before, left())
		assert.Len(t, before, 2)
		assert.Equal(t, says, exit)
		assert.False(t, slices.ContainsFunc(s.VMs(), func(v VMState) bool { return v.ID == 200 }))
	})
}

func TestARunningSourceIsLockedAlone(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		first := c.do("POST", "/nodes/pve1/qemu/100/clone", "newid", "201", "full", "1")
		time.Sleep(200 * time.Millisecond)
		second := c.do("POST", "/nodes/pve1/qemu/100/clone", "newid", "202", "full", "1")
		assert.Equal(t, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", c.wait(second))
		assert.Equal(t, "OK", c.wait(first))
	})
}

func TestOneIDForManyClones(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		var tasks []reply
		for range 3 {
			tasks = append(tasks, c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201"))
		}
		assert.Equal(t, "OK", c.wait(tasks[0]))
		for _, r := range tasks[1:] {
			assert.Equal(t, "unable to create VM 201: config file already exists", c.wait(r))
		}
		r := c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201")
		assert.Equal(t, "500 unable to create VM 201: config file already exists", strconv.Itoa(r.status)+" "+r.reason)
	})
}

func TestTheNewMachineCarriesTheLock(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.template()
		clone := c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201")
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, "clone", c.do("GET", "/nodes/pve1/qemu/201/status/current").object()["lock"])
		r := c.do("PUT", "/nodes/pve1/qemu/201/config", "cores", "2")
		assert.Equal(t, "VM is locked (clone)", r.reason)
		assert.Equal(t, "VM is locked (clone)", c.wait(c.do("POST", "/nodes/pve1/qemu/201/status/start")))
		assert.Equal(t, "OK", c.wait(clone))
		assert.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/201/config", "cores", "2").status)
	})
}

func TestConfigWaitsTenSeconds(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		shutdown := c.do("POST", "/nodes/pve1/qemu/100/status/shutdown") // holds the lock for 3 s
		time.Sleep(time.Second)
		began := time.Now()
		assert.Equal(t, 200, c.do("PUT", "/nodes/pve1/qemu/100/config", "description", "x").status)
		assert.InDelta(t, 2, time.Since(began).Seconds(), 0.3, "waited for the shutdown")
		assert.Equal(t, "OK", c.wait(shutdown))

		s.state.Mu.Lock()
		unlock, err := (world.Worker{State: s.state}).Lock(world.ConfigLock(100), false, time.Second)
		s.state.Mu.Unlock()
		require.NoError(t, err)
		began = time.Now()
		r := c.do("PUT", "/nodes/pve1/qemu/100/config", "description", "y")
		assert.Equal(t, "500 can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", strconv.Itoa(r.status)+" "+r.reason)
		assert.Equal(t, 10*time.Second+s.state.Options.Timing.Call, time.Since(began))
		s.state.Mu.Lock()
		unlock()
		assert.Empty(t, s.state.Locks, "nothing is kept of a free lock")
		s.state.Mu.Unlock()
	})
}

// TestProtectedWhileADestroyWaits: the task looks at the protection again, under the lock.
func TestProtectedWhileADestroyWaits(t *testing.T) {
	in(t, EightA100(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		c.wait(c.do("POST", "/nodes/pve1/qemu/100/status/stop"))
		s.state.Mu.Lock()
		unlock, err := (world.Worker{State: s.state}).Lock(world.ConfigLock(100), false, time.Second)
		s.state.Mu.Unlock()
		require.NoError(t, err)
		destroy := c.do("DELETE", "/nodes/pve1/qemu/100")
		require.Equal(t, 200, destroy.status)
		s.state.Mu.Lock()
		s.state.VMs[100].Conf["protection"] = "1"
		unlock()
		s.state.Mu.Unlock()
		assert.Equal(t, "can't remove VM 100 - protection mode enabled", c.wait(destroy))
	})
}

func TestCleanupLingers(t *testing.T) {
	in(t, EightA100(), Options{CleanupLinger: 30 * time.Second}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu/100/status/stop")))
		start := c.do("POST", "/nodes/pve1/qemu/100/status/start")
		time.Sleep(3 * time.Second)
		r := c.do("PUT", "/nodes/pve1/qemu/100/config", "description", "y")
		assert.Contains(t, r.reason, "got timeout")
		assert.Equal(t, "OK", c.wait(start))
	})
}

func TestACancelledRequestReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(EightA100(), Options{})
		defer s.Close()
		s.Fail(Rule{Path: "/version", Delay: 20 * time.Second})
		began := time.Now()
		client := s.Client()
		client.Timeout = 50 * time.Millisecond
		_, err := client.Get("https://pve/api2/json/version")
		require.Error(t, err)
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails when a goroutine is left
		s := New(EightA100(), Options{})
		c := newCaller(t, s)
		c.template()
		s.Fail(Rule{Method: "POST", Path: ".*/clone", TaskDelay: time.Hour, Guest: &guest.Faults{}})
		c.do("POST", "/nodes/pve1/qemu/900/clone", "newid", "201")
		time.Sleep(time.Second)
		s.Close()
		s.Close()
		r := c.do("GET", "/version")
		assert.True(t, strings.HasSuffix(r.reason, "EOF"), r.reason)
	})
}
