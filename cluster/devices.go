package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// deviceState is what the devices of a node are, and what they are to be.
type deviceState struct {
	placement.DeviceShare
	have []pci.MappingState
	usb  placement.USB
}

// devicesStep makes the resource mappings of a node's devices. What another owner or the host itself
// uses is an error of Observe, so a plan reports it.
func (c *cards) devicesStep(n spec.Node) *converge.Resource[deviceState] {
	return &converge.Resource[deviceState]{
		ID: "devices/" + n.Name,
		Observe: func(ctx context.Context) (deviceState, error) {
			shares, have, usb, err := c.shareDevices(ctx, n.Host)
			if err != nil {
				return deviceState{}, err
			}
			return deviceState{shares[n.Name], have, usb}, errors.Join(shares[n.Name].Errs...)
		},
		Diff:  deviceState.diff,
		Costs: c.costsOfDevices(n),
		Apply: func(ctx context.Context, s deviceState) error {
			if err := c.rewriteUSB(ctx, n, s); err != nil {
				return err
			}
			vm, err := c.using(ctx, n, s.changedMappings())
			switch {
			case err != nil:
				return err
			case vm == nil:
				return c.rewrite(ctx, s.changedMappings())
			}
			return c.takeDown(ctx, n, func(ctx context.Context) error {
				return c.whileOff(ctx, vm, func(*proxmox.VM) error { return c.rewrite(ctx, s.changedMappings()) })
			})
		},
	}
}

// costsOfDevices is the cost of other devices: a restart of the node, if its machine runs with those it has.
func (c *cards) costsOfDevices(n spec.Node) func(context.Context, deviceState, converge.Diff) []converge.Cost {
	return func(ctx context.Context, s deviceState, _ converge.Diff) []converge.Cost {
		if vm, err := c.using(ctx, n, s.changedMappings()); err == nil && vm == nil {
			return nil
		}
		return c.stops(ctx, "other devices", n.Name)
	}
}

// shareDevices assigns the devices of a host, and returns all mappings.
func (c *site) shareDevices(ctx context.Context, host string) (shares map[string]placement.DeviceShare, have []pci.MappingState, usb placement.USB, err error) {
	has := func(of func(spec.Device) bool) bool {
		return slices.ContainsFunc(c.spec.Machines(), func(n spec.Node) bool { return n.Host == host && slices.ContainsFunc(n.Devices, of) })
	}
	if !has(func(spec.Device) bool { return true }) {
		return nil, nil, usb, nil
	}
	ledger, err := c.Proxmox.PCI.Ledger(ctx, host)
	if err != nil {
		return nil, nil, usb, err
	}
	uses, err := c.Proxmox.PCI.Uses(ctx, host)
	if err != nil {
		return nil, nil, usb, err
	}
	if has(func(d spec.Device) bool { return d.USB != "" }) {
		if usb.Mappings, err = c.Proxmox.PCI.USBMappings(ctx, host); err != nil {
			return nil, nil, usb, err
		}
		if usb.Claims, err = c.Proxmox.PCI.USBClaims(ctx, host); err != nil {
			return nil, nil, usb, err
		}
	}
	return placement.Devices(c.spec, host, ledger, uses, usb), ledger.Mappings, usb, nil
}

// checkDevices returns every problem with the devices of a host's nodes, before anything is made.
func (c *cards) checkDevices(ctx context.Context, host string) error {
	shares, have, usb, err := c.shareDevices(ctx, host)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range c.spec.Machines() {
		// The step of a node that has its devices reports its problems; they block no other node.
		share := shares[n.Name]
		if s := (deviceState{share, have, usb}); len(share.Mappings)+len(share.USB) == 0 || !s.diff().Empty() {
			errs = append(errs, share.Errs...)
		}
	}
	return errors.Join(errs...)
}

// changedMappings are the mappings that are missing or have other devices.
func (s deviceState) changedMappings() []pci.Mapping {
	return slices.DeleteFunc(slices.Clone(s.Mappings), func(m pci.Mapping) bool { return m.Diff(placement.Mapping(s.have, m.ID)).Empty() })
}

func (s deviceState) diff() converge.Diff {
	var d converge.Diff
	for i, m := range s.Mappings {
		for _, f := range m.Diff(placement.Mapping(s.have, m.ID)) {
			f.Path, f.Note = m.ID, s.Why[i]
			if f.Effect != converge.Create {
				f.Effect = converge.Restart
			}
			d = append(d, f)
		}
	}
	for _, m := range s.USB {
		for _, f := range m.Diff(s.usb.Mapping(m.ID)) {
			f.Path, f.Note = m.ID, m.Device.String()
			d = append(d, f)
		}
	}
	return d
}

// using returns a node's VM if it runs with a device of one of the mappings: it keeps what it has until
// it is off, and its configuration names only the mapping.
func (c *site) using(ctx context.Context, n spec.Node, mappings []pci.Mapping) (*proxmox.VM, error) {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil || vm == nil || !vm.Running || !slices.ContainsFunc(mappings, func(m pci.Mapping) bool { return len(devices(vm, m.ID)) > 0 }) {
		return nil, err
	}
	return vm, nil
}

// rewriteUSB writes the mappings of USB devices that differ. A VM that has one loses the old device while it
// runs, and its own step gives it the new one.
func (c *cards) rewriteUSB(ctx context.Context, n spec.Node, s deviceState) error {
	for _, m := range s.USB {
		have := s.usb.Mapping(m.ID)
		if m.Diff(have).Empty() {
			continue
		}
		vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
		if err != nil {
			return err
		}
		if vm != nil {
			for _, slot := range vm.USBSlots(m.ID) {
				if err := proxmox.DetachUSB(ctx, vm, slot); err != nil {
					return err
				}
			}
		}
		if err := c.Proxmox.PCI.RewriteUSBMapping(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *cards) rewrite(ctx context.Context, mappings []pci.Mapping) error {
	for _, m := range mappings {
		if err := c.Proxmox.PCI.RewriteMapping(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
