package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// destroy destroys a VM that is off, with the disks that its configuration names. It does not use
// destroy-unreferenced-disks: with that option Proxmox removes every disk with the VM's number, on
// every storage. Proxmox does not check whether such a disk is attached to another VM, or belongs
// to a VM with the same number of another Proxmox that shares the storage.
func (c *VMClient) destroy(ctx context.Context, vm *VM) error {
	if err := c.destroys.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.destroys.Release(1)
	c.vmids.reserve(vm.VMID)
	converge.Progressf(ctx, "destroying %s", vm)
	if err := detachSurvivors(ctx, c, vm); err != nil {
		return err
	}
	exit := ""
	if err := c.retry(ctx, vm, "destroy", func() (err error) {
		_, exit, err = c.pve.DoExit(ctx, http.MethodDelete, api.VMPath(vm.Host, vm.VMID), api.Params{"purge": 1})
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}, func() (bool, error) {
		_, err := c.status(ctx, vm.Host, vm.VMID)
		if errors.Is(err, ErrNotFound) {
			return true, nil
		}
		return false, err
	}); err != nil {
		return err
	}
	return c.removeLeftDisks(ctx, vm, exit)
}

// askTime bounds a check of storages after a task that ended well.
const askTime = 10 * time.Second

// removeLeftDisks removes disks of a VM's configuration that its destroy could not remove. It only
// reports other disks with the VM's number: another VM may own them, or a killed task left them.
// Until qemu-server 9.2 (its commit 42e450dc) a destroy that says "Could not remove disk" ends with
// OK, not with warnings. If the storages do not answer after an OK, it reports that without an
// error.
func (c *VMClient) removeLeftDisks(ctx context.Context, vm *VM, exit string) error {
	for _, storage := range vm.storagesInUse() {
		c.pve.Invalidate(api.NodePath(vm.Host, "storage", storage))
	}
	limited, cancel := ctx, func() {}
	if exit == "OK" {
		limited, cancel = context.WithTimeout(ctx, askTime)
	}
	defer cancel()
	left, others, err := c.numberedDisks(limited, vm)
	switch {
	case err != nil && exit == "OK":
		converge.Progressf(ctx, "VM %d is destroyed; whether its disks are gone could not be seen: %s", vm.VMID, err)
		return nil
	case err != nil:
		return fmt.Errorf("VM %d is destroyed, but whether its disks are gone could not be seen: %w", vm.VMID, err)
	}
	if len(others) > 0 {
		converge.Progressf(ctx, "%s bore the number of %s and were not among its disks: they stay, for another VM may use them; "+
			"pvesm free on %s removes those that nobody needs", strings.Join(others, ", "), vm, vm.Host)
	}
	if len(left) == 0 {
		return nil
	}
	return c.removeLeft(ctx, vm, left)
}

// numberedDisks returns the disks that carry a VM's number on the storages that the VM used: those that
// its configuration named, and others.
func (c *VMClient) numberedDisks(ctx context.Context, vm *VM) (named, others []string, err error) {
	volumes := vm.Volumes()
	for _, storage := range vm.storagesInUse() {
		all, err := c.client.Storages.Volumes(ctx, vm.Host, storage, "images")
		if err != nil {
			return nil, nil, err
		}
		for _, v := range all {
			switch {
			case v.VMID != vm.VMID:
			case slices.Contains(volumes, v.ID):
				named = append(named, v.ID)
			default:
				others = append(others, v.ID)
			}
		}
	}
	return named, others, nil
}

// removeLeft removes disks of a destroyed VM, unless they belong to another VM by now.
func (c *VMClient) removeLeft(ctx context.Context, vm *VM, left []string) error {
	// A disk belongs to another VM if the VMID was reused. Proxmox writes a VM's configuration
	// before it makes the first disk, so checking for a configuration now is late enough.
	taken, err := c.VMIDTaken(ctx, vm.VMID)
	if taken {
		converge.Progressf(ctx, "%s stay: a new VM has the number %d", strings.Join(left, ", "), vm.VMID)
		return nil
	}
	var holders *Holders
	if err == nil {
		holders, err = c.Holders(ctx, "")
	}
	if err != nil {
		return fmt.Errorf("VM %d is destroyed, but whether its disks %s are another's by now could not be seen: %w", vm.VMID, strings.Join(left, ", "), err)
	}
	for _, id := range left {
		by, held := holders.fileBut(Volume{ID: id}.Name(), vm.VMID)
		switch {
		case held:
			converge.Progressf(ctx, "%s stays: VM %d (%s) on %s has it too", id, by.VMID, by.Name, by.Host)
			continue
		case len(holders.Unreadable) > 0:
			silent := holders.Unreadable[0]
			return fmt.Errorf("VM %d is destroyed, but its disk %s is not, since VM %d (%s) on %s may have it too: %w",
				vm.VMID, id, silent.VMID, silent.Name, silent.Host, silent.Err)
		}
		if err := c.client.Storages.Delete(ctx, vm.Host, id); err != nil {
			return fmt.Errorf("VM %d is destroyed, but its disk %s is not: %w", vm.VMID, id, err)
		}
	}
	return nil
}
