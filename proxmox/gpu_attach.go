package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// HostPCI is a passed-through device.
type HostPCI struct {
	Slot    string // hostpci0; may be empty in a spec
	Mapping string // id of the resource mapping
	PCIe    bool   // needs q35
	ROMBar  bool   // show the option ROM; ovmf and data centre cards do not need it
}

// line returns the config line of the device.
func (h HostPCI) line() string {
	p := wire.Properties{{Key: "mapping", Value: h.Mapping}}.With("pcie", wire.OnOff(h.PCIe))
	if !h.ROMBar {
		p = p.With("rombar", "0")
	}
	return p.String()
}

// diffGPUs compares passed-through devices. Which card a mapping leaves for the VM is decided for all
// VMs at once, from one [pci.Ledger].
func (s VMSpec) diffGPUs(d *differ, vm *VM) {
	have := map[string]HostPCI{}
	for _, g := range vm.GPUs {
		have[g.Slot] = g
	}
	for i, want := range s.passthrough() {
		want.Slot = fmt.Sprintf("hostpci%d", i)
		old := have[want.Slot]
		delete(have, want.Slot)
		d.device(want.Slot, old, want)
	}
	for _, old := range vm.GPUs {
		// Only root can add or remove a device without a mapping.
		if _, extra := have[old.Slot]; extra && old.Mapping != "" {
			d.device(old.Slot, old, HostPCI{})
		}
	}
}

// passthrough are all devices that are passed through, in the order of their slots.
func (s VMSpec) passthrough() []HostPCI { return slices.Concat(s.GPUs, s.Devices) }

// device adds the change of a slot; none of both is its being free.
func (d *differ) device(slot string, have, want HostPCI) {
	line := ""
	if want != (HostPCI{}) {
		line = want.line()
	}
	if have != want {
		d.set(theDevice, slot, have.String(), want.String(), slot, line)
	}
}

// String describes the device in a few words.
func (h HostPCI) String() string {
	if h.Mapping == "" {
		if h.Slot == "" {
			return ""
		}
		return "a device without a mapping"
	}
	out := h.Mapping
	if h.PCIe {
		out += " pcie"
	}
	if h.ROMBar {
		out += " rombar"
	}
	return out
}

// AttachGPU adds a device to a VM that a [Client] has read, by its mapping, in the next free slot.
// It reads vm again, so that [VM.GPUs] includes the device. It checks what Proxmox checks
// only at start: that the mapping exists and fits the host, that the machine type has PCIe, and that
// the other VMs leave it a device (else a [*ClaimedError]). A VM that has a device of that mapping is
// unchanged; to add a second one, name a free slot in [HostPCI.Slot]. In a running VM the
// device is pending until the next start; [VM.Pending] shows it.
//
// It changes the VM as [VMClient.Shape] does, and nothing but that slot. The VM's memory is then locked
// to the host, so that a balloon can no longer take any back (QEMU, virtio_balloon_inhibited of hw/virtio/virtio-balloon.c):
// Shape switches the balloon off unless the spec has it; AttachGPU and DetachGPU leave it as it is.
func AttachGPU(ctx context.Context, vm *VM, device HostPCI) error {
	c, now, err := waitForEarlierTasks(ctx, vm)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(now.GPUs, func(g HostPCI) bool {
		return g.Mapping == device.Mapping && (device.Slot == "" || device.Slot == g.Slot)
	}) {
		return nil
	}
	mapping, err := c.PCI.Mapping(ctx, device.Mapping, now.Host)
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
	if err := c.PCI.checkUnclaimed(ctx, now, device.Mapping); err != nil {
		return err
	}
	if device.Slot == "" {
		if device.Slot, err = freeSlot(now); err != nil {
			return err
		}
	}
	if err := c.VMs.setDevice(ctx, now, device.Slot, device); err != nil {
		return fmt.Errorf("attach %s to %s: %w", device.Mapping, now, err)
	}
	return c.VMs.renew(ctx, vm)
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
		by = append(by, fmt.Sprintf("%s has one %s", cl, cl.Description()))
	}
	return fmt.Sprintf("proxmox: mapping %s has no device left on %s: %s\n  detach it there first, or name a mapping of another card", e.Mapping, e.Host, strings.Join(by, ", "))
}

// checkUnclaimed returns a ClaimedError unless the VMs of a host leave a device of a mapping.
func (c *PCIClient) checkUnclaimed(ctx context.Context, vm *VM, mapping string) error {
	ledger, err := c.Ledger(ctx, vm.Host)
	if err != nil {
		return err
	}
	offered, claims := ledger.MappingClaims(vm.Host, mapping)
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
	c, now, err := waitForEarlierTasks(ctx, vm)
	if err != nil {
		return err
	}
	if err := c.VMs.setDevice(ctx, now, slot, HostPCI{}); err != nil {
		return fmt.Errorf("detach %s from %s: %w", slot, now, err)
	}
	return c.VMs.renew(ctx, vm)
}

// waitForEarlierTasks reads a VM once no unwatched task of ours is running on its host. A change whose
// answer was lost still runs as a task, and a configuration that is read before the task ends is
// stale afterwards.
func waitForEarlierTasks(ctx context.Context, v *VM) (*Client, *VM, error) {
	if v == nil || v.client == nil {
		return nil, nil, fmt.Errorf("proxmox: %s was not read from a host: take one that Client.VMs.ByID or Client.VMs.Get returns", v)
	}
	c := v.client
	if _, err := c.pve.WaitForEarlierTasks(ctx, v.Host); err != nil {
		return nil, nil, err
	}
	now, err := c.VMs.Refresh(ctx, v)
	return c, now, err
}

// setDevice changes what is in one slot of a VM, unless the VM has changed since it was read.
func (c *VMClient) setDevice(ctx context.Context, vm *VM, slot string, want HostPCI) error {
	d := &differ{vm: vm, running: vm.Running}
	if i := slices.IndexFunc(vm.GPUs, func(g HostPCI) bool { return g.Slot == slot }); i >= 0 {
		d.device(slot, vm.GPUs[i], want)
	} else {
		d.device(slot, HostPCI{}, want)
	}
	if len(d.all) == 0 {
		return nil
	}
	return c.change(ctx, vm, d.all)
}

// renew reads a VM again, into the caller's variable.
func (c *VMClient) renew(ctx context.Context, vm *VM) error {
	now, err := c.Refresh(ctx, vm)
	if err != nil {
		return err
	}
	*vm = *now
	return nil
}

func freeSlot(vm *VM) (string, error) {
	for i := range unit.MaxPCI {
		slot := fmt.Sprintf("hostpci%d", i)
		if _, taken := vm.Config()[slot]; !taken {
			return slot, nil
		}
	}
	return "", fmt.Errorf("proxmox: %s has 16 passed-through devices, which is all that it can have", vm)
}
