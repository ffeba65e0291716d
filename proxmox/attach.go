package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// AttachGPU adds a device to a VM that a [Client] has read, by its mapping, in the next free slot.
// It reads vm again, so that [VM.GPUs] includes the device. It checks what Proxmox checks
// only at start: that the mapping exists and fits the host, that the machine type has PCIe, and that
// the other VMs leave it a device (else a [*ClaimedError]). A VM that has a device of that mapping is
// unchanged; to add a second one, name a free slot in [HostPCI.Slot]. In a running VM the
// device is pending until the next start; [VM.Pending] shows it.
//
// The VM's memory is then locked to the host, so that a balloon can no longer take any back;
// [VMSpec] switches the balloon off, AttachGPU leaves it as it is.
func AttachGPU(ctx context.Context, vm *VM, device HostPCI) error {
	c, now, err := afterEarlier(ctx, vm)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now.GPUs, func(g HostPCI) bool {
		return g.Mapping == device.Mapping && (device.Slot == "" || device.Slot == g.Slot)
	}) {
		return nil
	}
	mapping, err := c.Mapping(ctx, device.Mapping, now.Host)
	switch {
	case err != nil:
		return err
	case mapping == nil:
		return fmt.Errorf("proxmox: mapping %s does not exist, or the token may not see it (Mapping.Use on /mapping/pci/%s)", device.Mapping, device.Mapping)
	case !slices.ContainsFunc(mapping.Devices, func(d pci.MappedDevice) bool { return d.Host == now.Host }):
		return fmt.Errorf("proxmox: mapping %s has no device on %s, where %s is", device.Mapping, now.Host, now)
	case len(mapping.Problems) > 0:
		return fmt.Errorf("proxmox: mapping %s does not fit the hardware of %s: %s", device.Mapping, now.Host, strings.Join(mapping.Problems, "; "))
	case device.PCIe && !strings.Contains(now.Machine, "q35"):
		return fmt.Errorf("proxmox: %s is of machine type %s; PCIe wants q35: set machine=q35 while it is off", now, cmp.Or(now.Machine, "none"))
	}
	if err := c.unclaimed(ctx, now, device.Mapping); err != nil {
		return err
	}
	if device.Slot == "" {
		if device.Slot, err = freeSlot(now); err != nil {
			return err
		}
	}
	if err := c.setDevice(ctx, now, api.Params{device.Slot: device.Line()}); err != nil {
		return fmt.Errorf("attach %s to %s: %w", device.Mapping, now, err)
	}
	return c.renew(ctx, vm)
}

// ClaimedError reports a mapping of which other VMs, running or not, already have every device. One
// of them would not start.
type ClaimedError struct {
	Mapping, Host string
	Claims        []pci.Claim // of the devices that the mapping has on the host
}

// Error names the VMs, and says what to do.
func (e *ClaimedError) Error() string {
	var by []string
	for _, cl := range e.Claims {
		by = append(by, fmt.Sprintf("%s has one %s", cl, cl.How()))
	}
	return fmt.Sprintf("proxmox: mapping %s has no device left on %s: %s\n  detach it there first, or name a mapping of another card", e.Mapping, e.Host, strings.Join(by, ", "))
}

// unclaimed returns a ClaimedError unless the VMs of a host leave a device of a mapping.
func (c *Client) unclaimed(ctx context.Context, vm *VM, mapping string) error {
	ledger, err := c.Ledger(ctx, vm.Host)
	if err != nil {
		return err
	}
	offered, claims := ledger.Offered(vm.Host, mapping)
	if len(claims) < offered {
		return nil
	}
	return &ClaimedError{Mapping: mapping, Host: vm.Host, Claims: claims}
}

// DetachGPU removes the device in a slot, such as hostpci1, from a VM that a [Client] has read, and
// reads vm again. A VM whose slot is already free is unchanged. In a running VM the device stays
// until the next start; [VM.Pending] shows it. Only root can add or remove a device without
// a mapping: Proxmox refuses to remove it with a token.
func DetachGPU(ctx context.Context, vm *VM, slot string) error {
	c, now, err := afterEarlier(ctx, vm)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now.GPUs, func(g HostPCI) bool { return g.Slot == slot }) {
		if err := c.setDevice(ctx, now, api.Params{"delete": slot}); err != nil {
			return fmt.Errorf("detach %s from %s: %w", slot, now, err)
		}
	}
	return c.renew(ctx, vm)
}

// afterEarlier reads a VM once no unwatched task of ours is running on its host. A change whose
// answer was lost still runs as a task, and a configuration that is read before the task ends is
// stale afterwards.
func afterEarlier(ctx context.Context, v *VM) (*Client, *VM, error) {
	if v == nil || v.client == nil {
		return nil, nil, fmt.Errorf("proxmox: %s was not read from a host: take one that Client.ByID or Client.VM returns", v)
	}
	c := v.client
	if _, err := c.AwaitEarlier(ctx, v.Host); err != nil {
		return nil, nil, err
	}
	now, err := c.Refresh(ctx, v)
	return c, now, err
}

// setDevice changes a VM's configuration, unless it has changed since it was read.
func (c *Client) setDevice(ctx context.Context, vm *VM, p api.Params) error {
	p["digest"] = vm.Digest
	return c.Do(ctx, http.MethodPost, api.VMPath(vm.Host, vm.VMID, "config"), p)
}

// renew reads a VM again, into the caller's variable.
func (c *Client) renew(ctx context.Context, vm *VM) error {
	now, err := c.Refresh(ctx, vm)
	if err != nil {
		return err
	}
	*vm = *now
	return nil
}

func freeSlot(vm *VM) (string, error) {
	for i := range 16 {
		slot := fmt.Sprintf("hostpci%d", i)
		if _, taken := vm.Config()[slot]; !taken {
			return slot, nil
		}
	}
	return "", fmt.Errorf("proxmox: %s has 16 passed-through devices, which is all that it can have", vm)
}
