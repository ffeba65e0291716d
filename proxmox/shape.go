package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
	"github.com/cps-gpu/homelab/proxmox/machine"
)

// Shape makes a VM what spec says: it clones the template when vm is nil, sets
// the configuration in one request, grows the disk and starts the VM. What is
// there already is not done again, so it goes on wherever an earlier run ended.
// A VM that runs and needs a restart for a change is shut down and started;
// drain it before. A change that needs another VM is refused: [Client.Remove]
// it first.
func (c *Client) Shape(ctx context.Context, spec VMSpec, vm *VM) error {
	if err := spec.Check(); err != nil {
		return err
	}
	spec = spec.WithUUID()
	vm, err := c.present(ctx, spec, vm)
	if err != nil {
		return err
	}
	diff := spec.Diff(vm)
	restart, off := vm.Running && diff.Effect() == drift.Restart, false
	if restart && slices.ContainsFunc(spec.Changes(vm), func(ch machine.Change) bool { return ch.WhileOff() }) {
		off = true
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
	}
	shaped, err := c.configure(ctx, spec, vm)
	if err != nil {
		if off && ctx.Err() == nil { // what ran before is not left off
			err = errors.Join(err, c.Start(ctx, vm))
		}
		return err
	}
	vm = shaped
	if vm.Running && (restart || len(spec.Waiting(vm)) > 0) {
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
		vm.Pending, off = nil, true
	}
	if (spec.Running || off) && !vm.Running {
		return c.Start(ctx, vm)
	}
	return nil
}

// EnsureVM makes a VM what spec says, and returns it: a look, [machine.Spec.Diff], and where
// something differs, [Client.Shape] and another look.
func (c *Client) EnsureVM(ctx context.Context, spec VMSpec) (*VM, error) {
	vm, err := c.VM(ctx, spec.Owner, spec.Name)
	if err != nil || spec.Diff(vm).Empty() {
		return vm, err
	}
	if err := c.Shape(ctx, spec, vm); err != nil {
		return nil, err
	}
	if vm, err = c.VM(ctx, spec.Owner, spec.Name); err != nil {
		return nil, err
	}
	if d := spec.Diff(vm); !d.Empty() {
		return nil, fmt.Errorf("proxmox: %s was changed and still differs: %s", vm, d)
	}
	return vm, nil
}

// present returns the VM, unlocked, and clones it when there is none.
func (c *Client) present(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var err error
	if vm != nil {
		if vm, err = c.still(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.find(ctx, spec.Host, spec.Owner, spec.Name); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.clone(ctx, spec); err != nil {
			return nil, err
		}
	}
	vm.Owner = spec.Owner
	vm.Unfinished = vm.HalfMade(spec.Owner)
	return vm, nil
}

// find returns the VM of that name, unlocked, which an earlier run may only have begun
// to make; nil when there is none, and a [*ConflictError] when it is somebody else's.
func (c *Client) find(ctx context.Context, host, owner, name string) (*VM, error) {
	if _, err := c.AwaitEarlier(ctx, host); err != nil {
		return nil, err
	}
	for {
		all, err := live.All(ctx, c.Client)
		if err != nil {
			return nil, err
		}
		found, foreign, err := c.namedIn(ctx, all, owner, name)
		if err != nil {
			return nil, err
		}
		vm, err := only(owner, name, found)
		switch {
		case err != nil:
			return nil, err
		case vm != nil && vm.Locked != "":
			return c.unlocked(ctx, vm)
		case vm != nil:
			return vm, nil
		}
		waited, err := c.waitForCreates(ctx, all)
		switch {
		case err != nil:
			return nil, err
		case waited:
			c.Forget("/qemu")
		case len(foreign) > 0:
			return nil, conflict(owner, foreign[0])
		default:
			return nil, nil
		}
	}
}

// still returns a VM as it is now. One that is off, and that no earlier process can
// be at work on, need not be read again: a change of it carries the digest of what
// was seen, and is refused when that is not what is there.
func (c *Client) still(ctx context.Context, vm *VM) (*VM, error) {
	waited, err := c.AwaitEarlier(ctx, vm.Host)
	if err != nil {
		return nil, err
	}
	if !waited && !vm.Running && !vm.Unfinished && vm.Locked == "" && vm.Digest != "" {
		return vm, nil
	}
	if vm.Locked != "" {
		if vm, err = c.unlocked(ctx, vm); err != nil || vm == nil {
			return nil, err
		}
	}
	return c.Idle(ctx, vm)
}

// Idle returns a VM as it is when nothing is at work on it any more, nil when it is
// gone: a task that a killed process began goes on.
func (c *Client) Idle(ctx context.Context, vm *VM) (*VM, error) {
	if err := c.Quiet(ctx, vm.Host, strconv.Itoa(vm.VMID)); err != nil {
		return nil, err
	}
	now, err := c.Refresh(ctx, vm)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return now, err
}

// waitForCreates waits for the VMs that another process, perhaps one of ours that was killed,
// has begun to make and that have no name yet. It reports whether there were some.
func (c *Client) waitForCreates(ctx context.Context, all []live.Resource) (waited bool, err error) {
	for _, r := range all {
		if r.Type != "qemu" || !live.Nameless(r) || r.Lock != "clone" && r.Lock != "create" || c.vmids.taken(int(r.VMID)) {
			continue
		}
		waited = true
		vm := &VM{Name: "a VM without a name yet", Host: r.Node, VMID: int(r.VMID), Locked: r.Lock}
		var dead *LockedError
		if _, err := c.unlocked(ctx, vm); err != nil && !errors.As(err, &dead) {
			return waited, err
		} else if err != nil {
			c.vmids.reserve(vm.VMID) // nobody will ever finish it
		}
	}
	return waited, nil
}
