package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// ByID returns the VM with that VMID, no matter who owns it. One that is not there is
// [ErrNotFound].
func (c *Client) ByID(ctx context.Context, vmid int) (*VM, error) {
	all, err := c.resources(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Type == "qemu" && int(r.VMID) == vmid {
			return c.read(ctx, r.Node, vmid, c.isRunning(ctx, r))
		}
	}
	return nil, fmt.Errorf("proxmox: VM %d does not exist, or the token may not see it (VM.Audit): %w", vmid, api.ErrNotFound)
}

// Listed returns a VM of owner's that was seen in a list as it is now; nil when it is
// gone, or its VMID is another's by now, or its configuration tells that it is a copy.
func (c *Client) Listed(ctx context.Context, owner string, seen Summary) (*VM, error) {
	vm, err := c.ByID(ctx, seen.VMID)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case vm.Name != seen.Name:
		return nil, nil
	case !c.owns(owner, vm):
		progress.Say(ctx, "warning: %s %s: it is not changed", vm, vm.unlike(owner))
		return nil, nil
	}
	vm.Owner = owner
	vm.Unfinished = vm.halfMade(owner)
	return vm, nil
}

// Unbased returns the disks of a template that are not what clones can hang on.
// Proxmox marks a VM as a template first and makes bases of its disks then, one by
// one (template_create in qemu-server): a host that dies in between leaves a template
// that looks whole.
func (v *VM) Unbased() []string {
	if !v.Template {
		return nil
	}
	volumes := map[string]string{}
	for _, d := range v.Disks {
		volumes[d.Slot] = d.Volume
	}
	if line, ok := v.config["efidisk0"]; ok {
		volumes["efidisk0"] = wire.Loose(line).First("file", "")
	}
	var out []string
	for slot, volume := range volumes {
		if !strings.HasPrefix(volume[strings.LastIndexAny(volume, ":/")+1:], "base-") {
			out = append(out, slot)
		}
	}
	slices.Sort(out)
	return out
}

// CloudInitDrives returns the slots of a VM, beside the one of our own seed, in which
// drives are that Proxmox fills for cloud-init. Of two seeds a guest reads either.
func (v *VM) CloudInitDrives() []string {
	var out []string
	for k, line := range v.config {
		if slotted.MatchString(k) && k != seedSlot && strings.Contains(line, "cloudinit") {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// rebase makes bases of those disks of a template that are none yet.
func (c *Client) rebase(ctx context.Context, vm *VM) error {
	for _, slot := range vm.Unbased() {
		err := c.Settle(ctx, vm.Host, strconv.Itoa(vm.VMID), func() error {
			return c.Do(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "template"), api.Params{"disk": slot})
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
