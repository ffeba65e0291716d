package proxmox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Every request of making a VM is lost once, before and after its work was done.
func TestLostAnswers(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, path := range []string{".*/clone", ".*/config", ".*/resize", ".*/status/start"} {
			for _, rule := range []pvesim.Rule{{Drop: true}, {Status: 596, Message: "Connection timed out"}} {
				t.Run(fmt.Sprintf("%s after=%t status=%d", path, after, rule.Status), func(t *testing.T) {
					bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
						template(t, c)
						rule.Path, rule.After, rule.Mutating = path, after, true
						spec := node(t, c, "cp1")
						fault := sim.Fail(rule)
						require.NoError(t, ensure(t.Context(), c, spec))
						require.Equal(t, 1, fault.Hits())
						all, err := c.VMs.List(t.Context(), owner)
						require.NoError(t, err)
						assert.Len(t, all, 2, "the template and one VM, not two")
					})
				})
			}
		}
	}
}

// Transient failures of tasks and of requests are tried again.
func TestTransientFailures(t *testing.T) {
	for name, rule := range map[string]pvesim.Rule{
		"clone task":  {Path: ".*/clone", TaskError: "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-vmdata' - got timeout"},
		"config":      {Path: ".*/config", Status: 500, Message: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
		"config task": {Path: ".*/config", TaskError: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
		"worker":      {Path: ".*/status/start", Status: 500, Message: "got no worker upid - start worker failed"},
		"start task":  {Path: ".*/status/start", TaskError: "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				spec := scratchNode(t, c) // a disk that is new is made in a task
				rule.Mutating, rule.Times = true, 2
				fault := sim.Fail(rule)
				require.NoError(t, ensure(t.Context(), c, spec))
				assert.Equal(t, 2, fault.Hits())
			})
		})
	}
}

// A failed request is not repeated while the host does not say whether it still works on it.
func TestTasksThatCannotBeRead(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		spec.Cores++
		fault := sim.Fail(pvesim.Rule{Mutating: true, Path: ".*/config", Times: -1, Status: 500, Message: "can't lock file '/x' - got timeout"})
		sim.Fail(pvesim.Rule{Method: http.MethodGet, Path: ".*/tasks", Skip: 1, Times: -1, Status: 403, Message: "blind"})
		require.ErrorContains(t, ensure(t.Context(), c, spec), "blind")
		assert.Equal(t, 1, fault.Hits())
	})
}

// A host that does not answer for some requests, looks among them, is waited for.
func TestAHostThatIsAwayForAWhile(t *testing.T) {
	for name, away := range map[string]struct {
		rule pvesim.Rule
		want string
	}{
		"once":         {rule: pvesim.Rule{Times: 1}},
		"looks too":    {rule: pvesim.Rule{Times: 9}},
		"for ever":     {rule: pvesim.Rule{Times: -1}, want: "Connection timed out"},
		"then refuses": {rule: pvesim.Rule{Times: 1, Mutating: true}, want: "Permission check failed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
				template(t, c)
				require.NoError(t, ensure(t.Context(), c, node(t, c, "cp1")))
				vm, err := c.VMs.Get(t.Context(), owner, "cp1")
				require.NoError(t, err)
				rule := away.rule
				rule.Path, rule.Status, rule.Message = ".*", 596, "Connection timed out"
				sim.Fail(rule)
				if rule.Mutating {
					sim.Fail(pvesim.Rule{Path: ".*/tasks", Times: -1, Status: 403, Message: "Permission check failed (/nodes/pve1, Sys.Audit)"})
				}
				err = c.VMs.Stop(t.Context(), vm)
				if away.want != "" {
					assert.ErrorContains(t, err, away.want)
					assert.ErrorContains(t, err, "POST /nodes/pve1/qemu/", "what was to be done is said too")
					return
				}
				require.NoError(t, err)
				assert.False(t, vm.Running)
			})
		})
	}
}

func TestTaskEnds(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		sim.Fail(pvesim.Rule{Path: ".*/status/start", TaskWarnings: 2})
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec), "warnings are a success")

		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		sim.Fail(pvesim.Rule{Path: ".*/status/stop", TaskError: "the host is on fire"})
		err = c.VMs.Stop(t.Context(), vm)
		var task *api.TaskError
		require.ErrorAs(t, err, &task, "a task that fails, fails under HTTP 200")
		assert.Equal(t, "qmstop", task.UPID.Type)
		assert.Equal(t, "the host is on fire", task.Exit)
		assert.NotEmpty(t, task.Log)
	})
}

// A task of seventeen minutes is waited for, with about one look a second.
func TestLongTask(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.Fail(pvesim.Rule{Path: ".*/download-url", TaskDelay: 17 * time.Minute})
		begun := time.Now()
		template(t, c)
		assert.GreaterOrEqual(t, time.Since(begun), 17*time.Minute)
		assert.Less(t, len(sim.Requests()), 1300)
	})
}

// Seven at once: one look at the tasks for all, no VMID twice.
func TestSevenAtOnce(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		specs := make([]proxmox.VMSpec, 7)
		for i := range specs {
			specs[i] = node(t, c, fmt.Sprintf("cp%d", i))
		}
		before, begun := len(sim.Requests()), time.Now()
		errs := make([]error, len(specs))
		var all sync.WaitGroup
		for i := range specs {
			all.Go(func() { errs[i] = ensure(t.Context(), c, specs[i]) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		assert.Len(t, mutations(sim, before), 4*7)
		polls, singles := 0, 0
		for _, r := range sim.Requests()[before:] {
			if strings.HasSuffix(r.Path, "/tasks") {
				polls++
			}
			if strings.Contains(r.Path, "/tasks/") {
				singles++
			}
		}
		t.Logf("%d requests, %d of them looks at tasks, %s", len(sim.Requests())-before, polls, time.Since(begun))
		assert.Zero(t, singles)
		assert.Less(t, polls, 120)
	})
}

func TestVMIDTakenByAnother(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		sim.Fail(pvesim.Rule{Path: ".*/clone", TaskError: "unable to create VM 102: config file already exists"})
		sim.Fail(pvesim.Rule{Path: ".*/clone", Status: 500, Message: "unable to create VM 103: config file already exists"})
		require.NoError(t, ensure(t.Context(), c, spec))
		all, err := c.VMs.List(t.Context(), owner)
		require.NoError(t, err)
		assert.Len(t, all, 2)
	})
}

func TestPermissionInsideATask(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		sim.Fail(pvesim.Rule{Method: http.MethodPut, Path: ".*/resize", TaskError: "403 Permission check failed (/vms/102, VM.Config.Disk)"})
		err := ensure(t.Context(), c, node(t, c, "cp1"))
		var task *api.TaskError
		require.ErrorAs(t, err, &task)
		assert.True(t, task.IsPermission())
		assert.ErrorContains(t, err, "--privs VM.Config.Disk")
	})
}

func TestMissingStorage(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		_, err := c.Storages.Upload(t.Context(), "pve1", "nope", "x.iso", []byte("x"))
		assert.ErrorContains(t, err, "pve1 has no storage nope, or the token may not see it (Datastore.Audit)")
		_, err = c.Storages.Upload(t.Context(), "pve1", "vmdata", "x.iso", []byte("x"))
		assert.ErrorContains(t, err, "storage vmdata does not take iso; let it: pvesm set vmdata --content")
	})
}

// A lock that nobody holds any more cannot be taken off by a token.
func TestDeadLock(t *testing.T) {
	m := pvesim.EightA100()
	m.VMs = append(m.VMs, pvesim.VM{ID: 200, Node: "pve1", Name: "cp1", Config: marked(200, "lock", "clone")})
	bubble(t, m, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		err := ensure(t.Context(), c, node(t, c, "cp1"))
		var locked *proxmox.LockedError
		require.ErrorAs(t, err, &locked)
		assert.EqualError(t, err, "proxmox: VM 200 on pve1 is locked (clone) and no task is running on it\n"+
			"  run on pve1 as root: qm unlock 200 && qm destroy 200 --purge")
	})
}

func TestDoubles(t *testing.T) {
	m := pvesim.EightA100()
	for id := 200; id < 202; id++ {
		m.VMs = append(m.VMs, pvesim.VM{ID: id, Node: "pve1", Name: "cp1", Config: marked(id)})
	}
	bubble(t, m, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		_, err := c.VMs.Get(t.Context(), owner, "cp1")
		var double *proxmox.DuplicateError
		require.ErrorAs(t, err, &double)
		assert.Equal(t, []int{200, 201}, double.VMIDs)
	})
}

func TestCloneOfAVMIsRefused(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		spec := node(t, c, "cp1")
		spec.Template = "win11"
		before := len(sim.Requests())
		assert.ErrorContains(t, ensure(t.Context(), c, spec), "is not a template of homelab-a100: it does not carry the tag homelab-a100")
		spec.Template = "none"
		assert.ErrorIs(t, ensure(t.Context(), c, spec), proxmox.ErrNotFound)
		assert.Empty(t, mutations(sim, before))
	})
}

func TestImageThatIsAnother(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		image := proxmox.Image{URL: imageURL, SHA256: strings.Repeat("0", 64), FileName: "x.qcow2"}
		_, err := c.Storages.Fetch(t.Context(), "pve1", "local", image)
		var task *api.TaskError
		require.ErrorAs(t, err, &task)
		assert.Contains(t, task.Exit, "checksum mismatch")
		image.FileName = "x.img"
		_, err = c.Storages.Fetch(t.Context(), "pve1", "local", image)
		assert.ErrorContains(t, err, "call it .qcow2")
	})
}

// A guest that never answers is waited for until the context ends, not longer.
func TestCancelDuringLongTask(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		sim.Fail(pvesim.Rule{Path: ".*/status/start", TaskDelay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, ensure(ctx, c, node(t, c, "cp1")), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(begun), time.Minute)
	})
}

func TestProgressSaysWhatIsWaitedFor(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		var mu sync.Mutex
		var said []string
		ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, u.String())
		})
		require.NoError(t, ensure(ctx, c, node(t, c, "cp1")))
		all := strings.Join(said, "\n")
		for _, want := range []string{"cloning cp1 from a100-template as VM 102", "configuring cp1", "growing scsi0 of cp1", "starting cp1 (VM 102 on pve1), up to 35s", "task qmstart of 102 on pve1"} {
			assert.Contains(t, all, want)
		}
	})
}

// What somebody has set for a VM's next start is undone while it runs.
func TestPendingThatIsNotWanted(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		template(t, c)
		spec := node(t, c, "cp1")
		require.NoError(t, ensure(t.Context(), c, spec))
		vm, err := c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		other := spec
		other.Memory, other.Cores = 3*proxmox.GiB, 1
		assert.Equal(t, converge.Restart, other.Diff(vm).Effect())
		status, body := rootTicket{}.ask(t, sim, http.MethodPut, fmt.Sprintf("/nodes/pve1/qemu/%d/config", vm.VMID), url.Values{"memory": {"3072"}, "cores": {"1"}})
		require.Equal(t, http.StatusOK, status, "%s", body)
		vm, err = c.VMs.Get(t.Context(), owner, "cp1")
		require.NoError(t, err)
		assert.Equal(t, converge.Update, spec.Diff(vm).Effect(), "%s", spec.Diff(vm))
		before := len(sim.Requests())
		require.NoError(t, ensure(t.Context(), c, spec))
		assert.Equal(t, []string{fmt.Sprintf("POST /nodes/pve1/qemu/%d/config", vm.VMID)}, mutations(sim, before), "and it runs on")
	})
}
