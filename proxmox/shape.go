package proxmox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// Shape makes a VM match spec. It clones the template if vm is nil, sets the configuration in one
// request, grows the disk and starts the VM. It skips what is already done, so it continues
// wherever an earlier run ended. If a change needs a restart, Shape shuts a running VM down and
// starts it again; drain the VM before. Shape refuses a change that needs another VM:
// [VMClient.Remove] the VM first.
func (c *VMClient) Shape(ctx context.Context, spec VMSpec, vm *VM) error {
	if err := spec.Check(); err != nil {
		return err
	}
	spec = spec.withUUID()
	vm, err := c.ensureCloned(ctx, spec, vm)
	if err != nil {
		return err
	}
	problems, err := c.client.Storages.VolumeProblems(ctx, spec, vm, "")
	if err = errors.Join(append(problems, err)...); err != nil {
		return err
	}
	diff := spec.Diff(vm)
	restart, off := vm.Running && diff.Effect() == converge.Restart, false
	if restart && slices.ContainsFunc(spec.changes(vm), func(ch change) bool { return ch.needsStop() }) {
		off = true
		if err := c.Shutdown(ctx, vm); err != nil {
			return err
		}
	}
	shaped, err := c.configure(ctx, spec, vm)
	if err != nil {
		if off && ctx.Err() == nil { // a VM that ran before runs again
			err = errors.Join(err, c.Start(ctx, vm))
		}
		return err
	}
	vm = shaped
	if vm.Running && (restart || len(spec.pendingChanges(vm)) > 0) {
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

// Ensure makes a VM match spec and returns it. It reads the VM and computes [VMSpec.Diff];
// if something differs, it calls [VMClient.Shape] and reads the VM again.
func (c *VMClient) Ensure(ctx context.Context, spec VMSpec) (*VM, error) {
	vm, err := c.Get(ctx, spec.Owner, spec.Name)
	if err != nil || spec.Diff(vm).Empty() {
		return vm, err
	}
	if err := c.Shape(ctx, spec, vm); err != nil {
		return nil, err
	}
	if vm, err = c.Get(ctx, spec.Owner, spec.Name); err != nil {
		return nil, err
	}
	if d := spec.Diff(vm); !d.Empty() {
		return nil, fmt.Errorf("proxmox: %s was changed and still differs: %s", vm, d)
	}
	return vm, nil
}

// present returns the VM, unlocked. It clones the VM if there is none.
func (c *VMClient) ensureCloned(ctx context.Context, spec VMSpec, vm *VM) (*VM, error) {
	var err error
	if vm != nil {
		if vm, err = c.refreshIdle(ctx, vm); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.find(ctx, spec.Host, spec.Owner, spec.Name); err != nil {
			return nil, err
		}
	}
	if vm == nil {
		if vm, err = c.client.Templates.clone(ctx, spec); err != nil {
			return nil, err
		}
	}
	vm.Owner = spec.Owner
	vm.Unfinished = vm.halfMade(spec.Owner)
	return vm, nil
}

// find returns the VM of that name, unlocked, even if an earlier run left it half-made. It returns
// nil if there is none, and a [*ConflictError] if it belongs to another owner.
func (c *VMClient) find(ctx context.Context, host, owner, name string) (*VM, error) {
	if _, err := c.pve.WaitForEarlierTasks(ctx, host); err != nil {
		return nil, err
	}
	for {
		all, err := live.List(ctx, c.pve)
		if err != nil {
			return nil, err
		}
		found, foreign, err := c.filterByName(ctx, all, owner, name)
		if err != nil {
			return nil, err
		}
		vm, err := exactlyOne(owner, name, found)
		switch {
		case err != nil:
			return nil, err
		case vm != nil && vm.Locked != "":
			if vm, err = c.waitUnlocked(ctx, vm); err != nil || vm != nil {
				return vm, err
			}
			c.pve.Invalidate("/qemu") // it is gone, or a complete clone that has moved to its own host
			continue
		case vm != nil:
			return vm, nil
		}
		waited, err := c.waitForCreates(ctx, all)
		switch {
		case err != nil:
			return nil, err
		case waited:
			c.pve.Invalidate("/qemu")
		case len(foreign) > 0:
			return nil, conflict(owner, foreign[0])
		default:
			return nil, nil
		}
	}
}

// still returns a VM as it is now. It does not read a VM again that is off and that no earlier
// process can be working on: a change carries the digest of the configuration that was read, and
// Proxmox refuses it if the configuration is another by now.
func (c *VMClient) refreshIdle(ctx context.Context, vm *VM) (*VM, error) {
	waited, err := c.pve.WaitForEarlierTasks(ctx, vm.Host)
	if err != nil {
		return nil, err
	}
	if !waited && !vm.Running && !vm.Unfinished && vm.Locked == "" && vm.Digest != "" {
		return vm, nil
	}
	if vm.Locked != "" {
		if vm, err = c.waitUnlocked(ctx, vm); err != nil || vm == nil {
			return nil, err
		}
	}
	return c.WaitIdle(ctx, vm)
}

// WaitIdle waits until no task works on a VM and returns the VM as it is then, or nil if it is gone. A
// task continues even if the process that started it was killed.
func (c *VMClient) WaitIdle(ctx context.Context, vm *VM) (*VM, error) {
	if err := c.pve.WaitIdle(ctx, vm.Host, strconv.Itoa(vm.VMID)); err != nil {
		return nil, err
	}
	now, err := c.Refresh(ctx, vm)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return now, err
}

// waitForCreates waits for VMs that another process, perhaps a killed one of ours, has started to
// make and that have no name yet. It reports whether there were any.
func (c *VMClient) waitForCreates(ctx context.Context, all []live.Resource) (waited bool, err error) {
	for _, r := range all {
		if r.Type != "qemu" || !live.IsUnnamed(r) || r.Lock != "clone" && r.Lock != "create" || c.vmids.isReserved(int(r.VMID)) {
			continue
		}
		waited = true
		vm := &VM{Name: "a VM without a name yet", Host: r.Node, VMID: int(r.VMID), Locked: r.Lock}
		var dead *LockedError
		if _, err := c.waitUnlocked(ctx, vm); err != nil && !errors.As(err, &dead) {
			return waited, err
		} else if err != nil {
			c.vmids.reserve(vm.VMID) // it will never be finished
		}
	}
	return waited, nil
}
