package pci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Device is a device of a host, or one function of it, that goes to a VM as it is: whatever it is for.
type Device struct {
	Host      string
	Address   unit.PCIAddress // without a function: all of them
	Functions []Function      // those that go to the VM

	all []Function // of the host
}

// Device returns the device at an address of a host; false: it has none there.
func (l *Ledger) Device(host string, at unit.PCIAddress) (Device, bool) {
	d := Device{Host: host, Address: at, all: l.devices[host]}
	for _, f := range d.all {
		if at.Contains(f.Address) {
			d.Functions = append(d.Functions, f)
		}
	}
	return d, len(d.Functions) > 0
}

// DevicesOfKind lists the functions of a host that have a vendor and device, such as 1ac1:089a, each as a device.
func (l *Ledger) DevicesOfKind(host, id string) []Device {
	var out []Device
	for _, f := range l.devices[host] {
		if f.ID() == id {
			out = append(out, Device{Host: host, Address: f.Address, Functions: []Function{f}, all: l.devices[host]})
		}
	}
	return out
}

// String names the device: "0000:03:00.0 (Samsung PM9A1, 144d:a80a)".
func (d Device) String() string {
	f := d.Functions[0]
	return fmt.Sprintf("%s (%s, %s)", d.Address, cmp.Or(strings.TrimSpace(f.VendorName+" "+f.Name), "a device of class "+f.Class), f.ID())
}

// Overlaps reports whether the devices have a function in common.
func (d Device) Overlaps(at unit.PCIAddress) bool {
	return slices.ContainsFunc(d.Functions, func(f Function) bool { return at.Contains(f.Address) })
}

// MappedDevice returns the device as an entry of a mapping.
func (d Device) MappedDevice() MappedDevice {
	f := d.Functions[0]
	return MappedDevice{Host: d.Host, Address: d.Address, ID: f.ID(), Subsystem: f.Subsystem, IOMMUGroup: f.IOMMUGroup}
}

// Problem says why the device cannot be passed through, and what to do, or returns "" if it can. with are
// the addresses of other devices that go to the same VM: a group of the IOMMU goes to one VM as a whole,
// and the host loses what is left in it.
func (d Device) Problem(with []unit.PCIAddress) (problem, cure string) {
	for _, f := range d.Functions {
		switch {
		case slices.Contains([]string{"05", "06", "0b"}, f.Class[:min(2, len(f.Class))]):
			return fmt.Sprintf("is a part of the host's board (class %s)", f.Class), "name another device"
		case f.IOMMUGroup < 0:
			return "has no IOMMU group", "switch VT-d or AMD-Vi on in the firmware; homelab host:prep does the rest (docs/real-host.md)"
		case f.Mediated:
			return "is divided by the host's driver, and Proxmox gives no whole device of that kind to a VM (mdev)", "remove the driver's option from the host, or name another device"
		}
		var group []Function
		for _, o := range d.all {
			switch {
			case o.Physical != nil && *o.Physical == f.Address:
				return fmt.Sprintf("has virtual functions, such as %s, which would go with it", o.Address), "name one of them, or remove them from the host"
			case o.IOMMUGroup == f.IOMMUGroup && !o.isBridge() && !d.Address.Contains(o.Address) && !slices.ContainsFunc(with, func(a unit.PCIAddress) bool { return a.Contains(o.Address) }):
				group = append(group, o)
			}
		}
		if len(group) > 0 {
			return fmt.Sprintf("shares IOMMU group %d with %s", f.IOMMUGroup, list(group)), "give the node all of the group, or use another slot, or firmware with ACS"
		}
	}
	return "", ""
}

// TakenBy returns the first claim on the device that is not of the claimant's own VM.
func (l *Ledger) TakenBy(d Device, own func(Claim) bool) (Claim, bool) {
	i := slices.IndexFunc(l.Claims, func(cl Claim) bool {
		return cl.Host == d.Host && !cl.Template && !own(cl) && slices.ContainsFunc(cl.Choices, func(choice []unit.PCIAddress) bool {
			return slices.ContainsFunc(choice, d.Overlaps)
		})
	})
	if i < 0 {
		return Claim{}, false
	}
	return l.Claims[i], true
}

// Use is a disk or a network interface of a host that the host uses itself.
type Use struct {
	What string // "the disk /dev/nvme0n1 (LVM)"
	// At is the function that it is on; nil: the host does not say it, and it may be on any of those
	// whose classes begin with one of Classes.
	At      *unit.PCIAddress
	Classes []string
}

// MayBe reports whether a device may be what the host uses, and whether it is for sure.
func (u Use) MayBe(d Device) (may, sure bool) {
	if u.At != nil {
		may = d.Overlaps(*u.At)
		return may, may
	}
	return slices.ContainsFunc(d.Functions, func(f Function) bool {
		return slices.ContainsFunc(u.Classes, func(class string) bool { return strings.HasPrefix(f.Class, class) })
	}), false
}
