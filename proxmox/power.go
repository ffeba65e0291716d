package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// EverStarted reports whether Proxmox has started vm at any time since the VM was made, as far as its
// list of tasks goes back. A token sees its own tasks, and with Sys.Audit on /nodes/NAME those of
// others. A clone counts as made when its source was made.
func (c *VMClient) EverStarted(ctx context.Context, vm *VM) (bool, error) {
	q := url.Values{"vmid": {strconv.Itoa(vm.VMID)}, "typefilter": {"qmstart"}, "source": {"all"}, "limit": {strconv.Itoa(api.MaxTasks)}}
	if _, made, found := strings.Cut(vm.Config()["meta"], "ctime="); found { // skip tasks of an earlier VM with the same VMID
		made, _, _ = strings.Cut(made, ",")
		q.Set("since", made)
	}
	var all []api.Task
	if err := c.pve.Get(ctx, api.NodePath(vm.Host, "tasks"), q, &all); err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(l api.Task) bool {
		return l.Running() || l.Status == "OK" || strings.HasPrefix(l.Status, "WARNINGS:")
	}), nil
}

// Start starts vm, unless it runs, and waits until Proxmox reports that it runs. The timeout is the
// one that Proxmox's own formula gives for the VM's shape.
func (c *VMClient) Start(ctx context.Context, vm *VM) error {
	limit := StartTimeout(vm.Memory, len(vm.GPUs), len(vm.NICs), vm.Hugepages != "")
	converge.Progressf(ctx, "starting %s, up to %s", vm, limit)
	runs := func() (bool, error) { return c.status(ctx, vm.Host, vm.VMID) }
	if err := c.retry(ctx, vm, "start", func() error {
		err := c.power(ctx, vm, "start", api.Params{"timeout": int(limit.Seconds())}, limit, runs)
		if api.IsAlreadyRunning(err) {
			return nil
		}
		return err
	}, runs); err != nil {
		return err
	}
	vm.Running = true
	return nil
}

// haTime is how long Proxmox's HA may take to begin: its managers' rounds take ten seconds each.
const haTime = 2 * time.Minute

// power asks to start, stop or shut down a VM, and waits until that is done. Of a VM that HA manages
// the task only notes what is wanted (hastart and hastop in PVE/API2/Qemu.pm); HA does it later.
func (c *core) power(ctx context.Context, vm *VM, verb string, p api.Params, limit time.Duration, done func() (bool, error)) error {
	task, _, err := c.pve.DoExit(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "status", verb), p)
	if err != nil || !strings.HasPrefix(task.Type, "ha") {
		return err
	}
	defer c.pve.Invalidate("/qemu")
	rule := converge.WaitRule{What: fmt.Sprintf("waiting for Proxmox's HA to %s %s", verb, vm), Limit: limit + haTime}
	return converge.Until(ctx, rule, func(context.Context) (string, error) {
		if ok, err := done(); ok || err != nil {
			return "", err
		}
		return "not done yet", nil
	})
}

// shutdownTime is how long a guest may take to shut down before it is switched off.
const shutdownTime = 3 * time.Minute

// Shutdown asks the guest to shut down, and switches it off if it still runs after three minutes. A
// VM that does not run is unchanged.
func (c *VMClient) Shutdown(ctx context.Context, vm *VM) error {
	converge.Progressf(ctx, "shutting down %s", vm)
	return c.down(ctx, vm, "shutdown", api.Params{"timeout": int(shutdownTime.Seconds()), "forceStop": 1})
}

// Stop switches vm off immediately.
func (c *VMClient) Stop(ctx context.Context, vm *VM) error {
	converge.Progressf(ctx, "stopping %s", vm)
	p := api.Params{}
	if c.client.Version().Major() >= 9 { // actually since 8.2
		p["overrule-shutdown"] = 1
	}
	return c.down(ctx, vm, "stop", p)
}

func (c *VMClient) down(ctx context.Context, vm *VM, verb string, p api.Params) error {
	stopped := func() (bool, error) {
		running, err := c.status(ctx, vm.Host, vm.VMID)
		if errors.Is(err, ErrNotFound) {
			return true, nil
		}
		return !running, err
	}
	if err := c.retry(ctx, vm, verb, func() error {
		err := c.power(ctx, vm, verb, p, shutdownTime, stopped)
		if api.IsOfHA(err) {
			delete(p, "overrule-shutdown")
			err = c.power(ctx, vm, verb, p, shutdownTime, stopped)
		}
		if api.IsNotRunning(err) || errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}, stopped); err != nil {
		return err
	}
	vm.Running = false
	return nil
}

// Remove stops vm, destroys it with its disks, and checks that they are gone. First it checks that
// the VM is still the one that vm describes, because the VMID may have been reused, and has no
// disk that vm does not name, since nobody agreed to lose that one. It refuses a VM that is protected.
func (c *VMClient) Remove(ctx context.Context, vm *VM) error { return c.remove(ctx, vm, false) }

// RemoveProtected is Remove for a VM whose protection the caller decides: it is lifted once the VM is off.
func (c *VMClient) RemoveProtected(ctx context.Context, vm *VM) error { return c.remove(ctx, vm, true) }

func (c *VMClient) remove(ctx context.Context, vm *VM, unprotected bool) error {
	now, err := c.current(ctx, vm)
	if err != nil || now == nil {
		return err
	}
	if err := newDisksError(vm, now); err != nil {
		return err
	}
	if !unprotected && now.Protected {
		return now.ProtectedError()
	}
	if now.Running {
		if err := c.Stop(ctx, now); err != nil {
			return err
		}
		if now, err = c.current(ctx, vm); err != nil || now == nil { // that took a while
			return err
		}
		if err := newDisksError(vm, now); err != nil {
			return err
		}
	}
	if now.Protected {
		if err := c.retry(ctx, now, "lift the protection of", func() error {
			return c.change(ctx, now, []change{unprotect()})
		}, func() (bool, error) {
			now, err = c.current(ctx, vm)
			return now == nil || !now.Protected, err
		}); err != nil || now == nil {
			return err
		}
	}
	err = c.destroy(ctx, now)
	if api.IsRunning(err) { // it was started meanwhile
		if err := c.Stop(ctx, now); err != nil {
			return err
		}
		return c.destroy(ctx, now)
	}
	return err
}

// ProtectedError returns the error of destroying a VM that is protected, with the command that lifts that.
func (v *VM) ProtectedError() error {
	return converge.Permanent(fmt.Errorf("%s stays: it is protected in Proxmox; to lift that, as root on %s: qm set %d --protection 0", v, v.Host, v.VMID))
}

// newDisksError is the error of a VM that has disks which it did not have when it was read.
func newDisksError(was, now *VM) error {
	had := was.Volumes()
	more := slices.DeleteFunc(now.Volumes(), func(id string) bool { return slices.Contains(had, id) })
	if was.Config() == nil || len(more) == 0 {
		return nil
	}
	return converge.Permanent(fmt.Errorf("%s stays: it has %s since it was looked at; run it again, which shows that too", now, strings.Join(more, " and ")))
}

// current returns vm as it is now, unlocked, or nil if it is gone. It always reads the
// configuration, because the list of all VMs does not show the UUID.
func (c *VMClient) current(ctx context.Context, vm *VM) (*VM, error) {
	waited, err := c.pve.WaitForEarlierTasks(ctx, vm.Host)
	if err != nil {
		return nil, err
	}
	all, err := live.List(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	listed := slices.IndexFunc(all, func(r live.Resource) bool {
		return r.Type == "qemu" && int(r.VMID) == vm.VMID && r.Node == vm.Host && r.HostErr == nil && r.Name == vm.Name &&
			r.Lock == "" && r.Status != ""
	})
	var now *VM
	if listed >= 0 && !waited && vm.Locked == "" {
		if now, err = c.read(ctx, vm.Host, vm.VMID, c.isRunning(ctx, all[listed])); errors.Is(err, ErrNotFound) {
			return nil, nil
		}
	} else {
		now, err = c.WaitIdle(ctx, vm) // a start may still be running
	}
	switch {
	case err != nil || now == nil:
		return nil, err
	case now.Name != vm.Name:
		return nil, fmt.Errorf("proxmox: VM %d on %s is now called %s, not %s: not removed", vm.VMID, vm.Host, now.Name, vm.Name)
	case vm.Owner != "" && !now.OwnedBy(vm.Owner):
		return nil, fmt.Errorf("proxmox: %s %s: not removed", now, now.foreignReason(vm.Owner))
	case !now.mayBe(vm):
		return nil, fmt.Errorf("not removed: %w", replacedError(vm))
	}
	now.Owner = vm.Owner
	if now.Locked != "" {
		return c.waitUnlocked(ctx, now)
	}
	return now, nil
}

// maxUnheld is the number of checks in a row in which a locked VM may have no running task: a task
// that ends removes its lock a moment later.
const maxUnheld = 2

// waitUnlocked waits until nothing holds vm's lock, and returns the VM as it is then, or nil if it is
// gone.
func (c *core) waitUnlocked(ctx context.Context, vm *VM) (now *VM, err error) {
	var away api.OutageTimer
	defer away.Reset()
	lock, unheld := vm.Locked, 0
	var ended error // an error that ends the loop
	rule := converge.WaitRule{What: "waiting for " + vm.String(), Poll: c.pve.Poll(), Strict: true}
	err = converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
		seen, tasks, err := c.lockHolders(ctx, vm)
		switch {
		case errors.Is(err, ErrNotFound):
			return "", nil
		case converge.IsTransient(err) && away.Expired(ctx):
			ended = fmt.Errorf("%s is locked (%s), and its current state is unknown: %w", vm, lock, err)
			return "", nil
		case err != nil:
			return "", err
		}
		away.Reset()
		if lock = seen.Locked; lock == "" {
			now, seen.Owner = seen, vm.Owner
			return "", nil
		}
		if len(tasks) == 0 {
			if unheld++; unheld > maxUnheld {
				ended = &LockedError{Host: vm.Host, VMID: vm.VMID, Lock: lock}
				return "", nil
			}
			return fmt.Sprintf("it is locked (%s)", lock), nil
		}
		unheld = 0
		said := fmt.Sprintf("it is locked (%s) by a running %s", lock, tasks[0].Type)
		converge.Progressf(ctx, "waiting for %s: %s", vm, said)
		if upid, err := api.ParseUPID(tasks[0].UPID); err == nil {
			_ = c.pve.Wait(ctx, upid) // the next check shows the result
		}
		return said, nil
	})
	return now, cmp.Or(err, ended)
}

// holders returns a VM as it is, and the running tasks that may hold its lock.
func (c *core) lockHolders(ctx context.Context, vm *VM) (*VM, []api.Task, error) {
	tasks, err := c.pve.RunningTasks(ctx, vm.Host)
	if err != nil {
		return nil, nil, err
	}
	now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
	return now, slices.DeleteFunc(tasks, func(l api.Task) bool { return !mayHoldLock(l, vm) }), err
}

// mayHoldLock reports whether a running task may hold vm's lock. A clone's task is named after the VM
// that it copies.
func mayHoldLock(l api.Task, vm *VM) bool {
	return l.ID == strconv.Itoa(vm.VMID) || vm.Locked == "clone" && l.Type == "qmclone"
}

// retry does work on a VM until it succeeds, see [api.Client.Retry]; an error says what failed.
func (c *core) retry(ctx context.Context, vm *VM, verb string, work func() error, done func() (bool, error)) error {
	if err := c.pve.Retry(ctx, vm.Host, strconv.Itoa(vm.VMID), work, done); err != nil {
		return c.explain(ctx, vm, verb, err)
	}
	return nil
}

// explain adds to an error which VM failed, and turns the error of a stale lock into a clear one.
func (c *core) explain(ctx context.Context, vm *VM, verb string, err error) error {
	if ctx.Err() == nil && api.LockOf(err) != "" {
		var dead *LockedError
		if _, locked := c.waitUnlocked(ctx, vm); errors.As(locked, &dead) {
			err = locked
		} else if locked != nil {
			err = fmt.Errorf("%w; %w", err, locked)
		}
	}
	return fmt.Errorf("%s %s: %w", verb, vm, err)
}

// isRunning reports whether a VM runs.
func (c *core) isRunning(ctx context.Context, r live.Resource) bool {
	if r.Status == "running" || r.Status == "stopped" {
		return r.Status == "running"
	}
	running, err := c.status(ctx, r.Node, int(r.VMID))
	return err == nil && running
}

// StartTimeout returns how long Proxmox waits for a VM to start (config_aware_timeout in
// qemu-server): 30 s, plus a second per GiB above 30 GiB; four times that with a passed-through
// device, because all memory is pinned first; at least 150 s with huge pages; and 5 s per
// interface.
func StartTimeout(memory Size, devices, nics int, hugepages bool) time.Duration {
	seconds := max(30, wire.RoundMiB(memory)/1024)
	if devices > 0 {
		seconds *= 4
	}
	if hugepages {
		seconds = max(seconds, 150)
	}
	return time.Duration(seconds+5*int64(nics)) * time.Second
}
