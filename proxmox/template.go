package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/live"
)

// ByID returns the VM with that VMID, no matter who owns it. If there is none, the error is
// [ErrNotFound].
func (c *VMClient) ByID(ctx context.Context, vmid int) (*VM, error) {
	all, err := live.All(ctx, c.pve)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Type == "qemu" && int(r.VMID) == vmid {
			return c.read(ctx, r.Node, vmid, c.isRunning(ctx, r))
		}
	}
	return nil, fmt.Errorf("proxmox: VM %d does not exist, or the token may not see it (VM.Audit): %w", vmid, ErrNotFound)
}

// Listed returns a VM of owner's from a list as it is now. It returns nil if the VM is gone, if its
// VMID belongs to another VM by now, or if its configuration shows that it is a copy.
func (c *VMClient) Listed(ctx context.Context, owner string, seen Summary) (*VM, error) {
	vm, err := c.ByID(ctx, seen.VMID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case vm.Name != seen.Name:
		return nil, nil
	case !vm.Ours(owner):
		progress.Say(ctx, "warning: %s %s: it is not changed", vm, vm.Unlike(owner))
		return nil, nil
	}
	vm.Owner = owner
	vm.Unfinished = vm.HalfMade(owner)
	return vm, nil
}

// rebase converts those disks of a template to base disks that are not base disks yet.
func (c *TemplateClient) rebase(ctx context.Context, vm *VM) error {
	off, err := c.Unbased(ctx, vm)
	if err != nil {
		return err
	}
	for _, slot := range off {
		err := c.pve.Settle(ctx, vm.Host, strconv.Itoa(vm.VMID), func() error {
			return c.pve.Do(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "template"), api.Params{"disk": slot})
		}, func() (bool, error) {
			seen, err := c.read(ctx, vm.Host, vm.VMID, false)
			return err == nil && !slices.Contains(seen.Unbased(), slot), err
		})
		if err != nil {
			return c.explain(ctx, vm, "convert", err)
		}
	}
	return nil
}
