package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
)

// attempts bounds how often work that meets a transient failure is begun again,
// and firstPause is the wait before the second time; the waits double.
const (
	attempts   = 6
	firstPause = 500 * time.Millisecond
)

// settle does work until it is done. After a failure that is transient, or whose
// outcome is unknown, it waits for what may still be under way on id (a VMID, the
// name of a download), looks whether the work is done after all, and only then
// begins it again. A look that fails in such a way is repeated like the work.
func (c *Client) settle(ctx context.Context, host, id string, work func() error, done func() (bool, error)) error {
	finished := func() (bool, error) {
		if err := c.quiet(ctx, host, id); err != nil {
			return false, err
		}
		return done()
	}
	failed, pause := work(), firstPause
	err := failed
	for try := 1; err != nil && ctx.Err() == nil && errorClass(err) != permanent && try < attempts; try++ {
		progress.Say(ctx, "%s; checking, then retrying", brief(err))
		if wait.Pause(ctx, jitter(pause)) != nil {
			return ctx.Err()
		}
		pause *= 2
		switch ok, unseen := finished(); {
		case ok:
			return nil
		case unseen != nil:
			err = errors.Join(unseen, failed)
		default:
			failed = work()
			err = failed
		}
	}
	return err
}

// jitter returns between half of d and one and a half of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// brief is Proxmox's words in an error, or its first line.
func brief(err error) string {
	if w := strings.TrimSpace(words(err)); w != "" {
		return w
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// quiet waits for every task that runs on id, however it ends.
func (c *Client) quiet(ctx context.Context, host, id string) error {
	if id == "" {
		return nil
	}
	all, err := c.running(ctx, host)
	if err != nil {
		return err
	}
	for _, l := range all {
		upid, err := parseUPID(l.UPID)
		if err != nil || l.ID != id || strings.Contains(l.Type, "proxy") { // an open console is a task too
			continue
		}
		if err := c.wait(ctx, upid); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Started reports whether Proxmox has started vm at any time since it was made, as far
// as its list of tasks goes back: a token sees its own, and those of others with
// Sys.Audit on /nodes/NAME. One that was cloned is as old as what it was cloned from.
func (c *Client) Started(ctx context.Context, vm *VM) (bool, error) {
	q := url.Values{"vmid": {strconv.Itoa(vm.VMID)}, "typefilter": {"qmstart"}, "source": {"all"}, "limit": {strconv.Itoa(maxListed)}}
	if _, made, found := strings.Cut(vm.config["meta"], "ctime="); found { // of this VM, and not of one that had its VMID
		made, _, _ = strings.Cut(made, ",")
		q.Set("since", made)
	}
	var all []listed
	if err := c.get(ctx, nodePath(vm.Host, "tasks"), q, &all); err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(l listed) bool {
		return l.running() || l.Status == "OK" || strings.HasPrefix(l.Status, "WARNINGS:")
	}), nil
}

// Start starts vm, if it does not run, and waits until Proxmox says that it does.
// Proxmox is given the time that its own formula grants for the VM's shape.
func (c *Client) Start(ctx context.Context, vm *VM) error {
	limit := startTimeout(vm.Memory, len(vm.GPUs), len(vm.NICs), vm.config["hugepages"] != "")
	progress.Say(ctx, "starting %s, up to %s", vm, limit)
	err := c.settle(ctx, vm.Host, strconv.Itoa(vm.VMID), func() error {
		err := c.do(ctx, http.MethodPost, vmPath(vm.Host, vm.VMID, "status", "start"), params{"timeout": int(limit.Seconds())})
		if saidOn(words(err)) {
			return nil
		}
		return err
	}, func() (bool, error) { return c.status(ctx, vm.Host, vm.VMID) })
	if err != nil {
		return c.explain(ctx, vm, "start", err)
	}
	vm.Running = true
	return nil
}

// shutdownTime is how long a guest gets to shut down before it is switched off.
const shutdownTime = 3 * time.Minute

// Shutdown asks the guest to shut down, and switches it off when it has not after
// three minutes. A VM that does not run is left alone.
func (c *Client) Shutdown(ctx context.Context, vm *VM) error {
	progress.Say(ctx, "shutting down %s", vm)
	return c.down(ctx, vm, "shutdown", params{"timeout": int(shutdownTime.Seconds()), "forceStop": 1})
}

// Stop switches vm off at once.
func (c *Client) Stop(ctx context.Context, vm *VM) error {
	progress.Say(ctx, "stopping %s", vm)
	p := params{}
	if c.version.Major() >= 9 { // since 8.2, in truth
		p["overrule-shutdown"] = 1
	}
	return c.down(ctx, vm, "stop", p)
}

func (c *Client) down(ctx context.Context, vm *VM, verb string, p params) error {
	stopped := func() (bool, error) {
		running, err := c.status(ctx, vm.Host, vm.VMID)
		if errors.Is(err, ErrNotFound) {
			return true, nil
		}
		return !running, err
	}
	err := c.settle(ctx, vm.Host, strconv.Itoa(vm.VMID), func() error {
		err := c.do(ctx, http.MethodPost, vmPath(vm.Host, vm.VMID, "status", verb), p)
		if saidOff(words(err)) || errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}, stopped)
	if err != nil {
		return c.explain(ctx, vm, verb, err)
	}
	vm.Running = false
	return nil
}

// Remove stops vm and destroys it with its disks, and checks that they are gone.
// It looks first whether the VM is still the one that vm describes: a VMID may
// have been given to another since.
func (c *Client) Remove(ctx context.Context, vm *VM) error {
	now, err := c.current(ctx, vm)
	if err != nil || now == nil {
		return err
	}
	if now.Running {
		if err := c.Stop(ctx, now); err != nil {
			return err
		}
	}
	err = c.destroy(ctx, now)
	if saidRuns(words(err)) { // somebody has started it since
		if err := c.Stop(ctx, now); err != nil {
			return err
		}
		return c.destroy(ctx, now)
	}
	return err
}

// current returns vm as it is now, unlocked, and nil when it is gone. Its configuration
// is read in any case: the list of all VMs does not show the UUID.
func (c *Client) current(ctx context.Context, vm *VM) (*VM, error) {
	waited, err := c.AwaitEarlier(ctx, vm.Host)
	if err != nil {
		return nil, err
	}
	all, err := c.resources(ctx)
	if err != nil {
		return nil, err
	}
	listed := slices.IndexFunc(all, func(r resource) bool {
		return r.Type == "qemu" && int(r.VMID) == vm.VMID && r.Node == vm.Host && r.unseen == nil && r.Name == vm.Name && r.Lock == "" && r.Status != ""
	})
	var now *VM
	if listed >= 0 && !waited && vm.Locked == "" {
		if now, err = c.read(ctx, vm.Host, vm.VMID, c.isRunning(ctx, all[listed])); errors.Is(err, ErrNotFound) {
			return nil, nil
		}
	} else {
		now, err = c.Idle(ctx, vm) // a start may still be under way
	}
	switch {
	case err != nil || now == nil:
		return nil, err
	case now.Name != vm.Name:
		return nil, fmt.Errorf("proxmox: VM %d on %s is now called %s, not %s: not removed", vm.VMID, vm.Host, now.Name, vm.Name)
	case vm.Owner != "" && !c.owns(vm.Owner, now):
		return nil, fmt.Errorf("proxmox: %s %s: not removed", now, now.unlike(vm.Owner))
	case !now.is(vm):
		return nil, fmt.Errorf("not removed: %w", otherVM(vm))
	}
	now.Owner = vm.Owner
	if now.Locked != "" {
		return c.unlocked(ctx, now)
	}
	return now, nil
}

// maxUnheld is in how many looks nothing may be at work on a locked VM: a task that ends
// takes its lock away a moment later.
const maxUnheld = 2

// unlocked waits until nothing holds vm's lock any more and returns the VM as it
// is then; nil when it is gone.
func (c *Client) unlocked(ctx context.Context, vm *VM) (now *VM, err error) {
	var away unheard
	defer away.over()
	lock, unheld := vm.Locked, 0
	var ended error // not for the loop to judge
	rule := wait.Rule{What: "waiting for " + vm.String(), Poll: c.cfg.Poll, Strict: true}
	err = wait.Until(ctx, rule, func(ctx context.Context) (string, error) {
		seen, tasks, err := c.holders(ctx, vm)
		switch {
		case errors.Is(err, ErrNotFound):
			return "", nil
		case wait.IsPassing(err) && away.lasts(ctx):
			ended = fmt.Errorf("%s is locked (%s), and its current state is unknown: %w", vm, lock, err)
			return "", nil
		case err != nil:
			return "", err
		}
		away.over()
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
		progress.Say(ctx, "waiting for %s: %s", vm, said)
		if upid, err := parseUPID(tasks[0].UPID); err == nil {
			_ = c.wait(ctx, upid) // the next look says what came of it
		}
		return said, nil
	})
	return now, cmp.Or(err, ended)
}

// holders returns a VM as it is, and the running tasks that may be what locks it.
func (c *Client) holders(ctx context.Context, vm *VM) (*VM, []listed, error) {
	tasks, err := c.running(ctx, vm.Host)
	if err != nil {
		return nil, nil, err
	}
	now, err := c.read(ctx, vm.Host, vm.VMID, vm.Running)
	return now, slices.DeleteFunc(tasks, func(l listed) bool { return !holds(l, vm) }), err
}

// holds reports whether a running task may be what locks vm. A clone's task is
// named after the VM that is copied.
func holds(l listed, vm *VM) bool {
	return l.ID == strconv.Itoa(vm.VMID) || vm.Locked == "clone" && l.Type == "qmclone"
}

// explain adds to an error which VM it happened to, and makes a lock that nobody
// holds plain.
func (c *Client) explain(ctx context.Context, vm *VM, verb string, err error) error {
	if ctx.Err() == nil && saidLock(words(err)) != "" {
		var dead *LockedError
		if _, locked := c.unlocked(ctx, vm); errors.As(locked, &dead) {
			err = locked
		} else if locked != nil {
			err = fmt.Errorf("%w; %w", err, locked)
		}
	}
	return fmt.Errorf("%s %s: %w", verb, vm, err)
}
