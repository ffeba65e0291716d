package pci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Function is one function of a device in a host. Ids have the format of Proxmox's mappings: lower
// case, without 0x.
type Function struct {
	Address    unit.PCIAddress
	Class      string // 030200
	Vendor     string // 10de
	Device     string // 20b2
	Subsystem  string // 10de:1463; empty when the host reports none
	IOMMUGroup int    // -1: none, so it cannot be passed through
	VendorName string
	Name       string // NVIDIA A100 …; from the host's PCI database

	Mediated bool             // the host's driver divides it into mediated devices (vGPU)
	Physical *unit.PCIAddress // of a virtual function (SR-IOV), if the host says so: its physical one
}

// ID returns vendor and device: 10de:20b2.
func (d Function) ID() string { return d.Vendor + ":" + d.Device }

// IsGPU reports whether d is a display or 3D controller of NVIDIA.
func (d Function) IsGPU() bool { return strings.HasPrefix(d.Class, "03") && d.Vendor == "10de" }

// isBridge reports whether d is a bridge. PCI bridges share groups with the devices behind them and
// stay with the host (pve-common, PVE/SysFSTools.pm, pci_dev_group_bind_to_vfio). On AMD systems
// the group also has a host bridge for each of them. It has no driver, so the host loses nothing.
func (d Function) isBridge() bool {
	return strings.HasPrefix(d.Class, "0604") || strings.HasPrefix(d.Class, "0600")
}

// physical returns the function that a virtual one belongs to. Hosts before Proxmox VE 9.2 do not
// say it. There, a GPU beside another of the same kind on its bus is virtual: PCI Express puts each
// card at device 0, function 0 of a bus of its own, and virtual functions come after it.
func (d Function) physical(all []Function) (unit.PCIAddress, bool) {
	if d.Physical != nil {
		return *d.Physical, true
	}
	first := unit.PCIAddress{Domain: d.Address.Domain, Bus: d.Address.Bus}
	return first, d.IsGPU() && d.Address != first && slices.ContainsFunc(all, func(o Function) bool {
		return o.Address == first && o.IsGPU() && o.ID() == d.ID()
	})
}

// GPU is a graphics card in a host.
type GPU struct {
	Function
	Model        string     // the common name: A100 PCIe 40GB
	Functions    []Function // the card's other functions: audio, USB
	Virtual      []Function // its virtual functions (SR-IOV): parts of it, no cards
	GroupMembers []Function // other cards in its IOMMU group, each by its GPU: one VM gets all of them
	Group        []Function // other devices in its IOMMU group, not part of a card
}

// Problem says why the card cannot be passed through, or returns "" if it can. All devices of an
// IOMMU group go to vfio together, so the host would lose any other device in the card's group.
// Other cards in the group are no problem if they go to the same VM.
func (g GPU) Problem() string {
	switch {
	case g.IOMMUGroup < 0:
		return "no IOMMU group: switch the IOMMU on in the firmware and on the kernel's command line"
	case len(g.Group) > 0:
		return fmt.Sprintf("shares IOMMU group %d with %s: use another slot, or firmware with ACS", g.IOMMUGroup, list(g.Group))
	case g.Mediated:
		return "is divided by the host's vGPU driver, and Proxmox gives no whole card of that kind to a VM (mdev): remove the driver from the host"
	}
	return ""
}

// list names functions.
func list(all []Function) string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = strings.TrimSpace(d.Address.String() + " " + d.Name)
	}
	return strings.Join(names, ", ")
}

// has reports whether an address, perhaps of a whole device, is of a function of the card: its own,
// or a virtual one.
func (g GPU) has(a unit.PCIAddress) bool {
	return a.Whole() == g.Address.Whole() || slices.ContainsFunc(g.Virtual, func(v Function) bool { return a.Contains(v.Address) })
}

// HasVirtualFunction reports whether an address is one of a part of the card alone: of a virtual function.
func (g GPU) HasVirtualFunction(a unit.PCIAddress) bool {
	return slices.ContainsFunc(g.Virtual, func(v Function) bool { return v.Address == a })
}

// GPUs finds the cards among a host's functions.
func GPUs(all []Function) []GPU {
	card := map[unit.PCIAddress]bool{} // devices with a GPU
	parent := map[unit.PCIAddress]unit.PCIAddress{}
	for _, d := range all {
		if at, virtual := d.physical(all); virtual {
			parent[d.Address] = at
		} else if d.IsGPU() {
			card[d.Address.Whole()] = true
		}
	}
	var out []GPU
	for _, d := range all {
		if _, virtual := parent[d.Address]; virtual || !d.IsGPU() {
			continue
		}
		gpu := GPU{Function: d, Model: modelOf(d.Name)}
		for _, other := range all {
			at, virtual := parent[other.Address]
			together := d.IOMMUGroup >= 0 && other.IOMMUGroup == d.IOMMUGroup
			switch {
			case other.Address == d.Address:
			case virtual && at == d.Address:
				gpu.Virtual = append(gpu.Virtual, other)
			case other.Address.Whole() == d.Address.Whole():
				gpu.Functions = append(gpu.Functions, other)
			case !together, other.isBridge(), virtual && other.IsGPU():
			case !card[other.Address.Whole()]:
				gpu.Group = append(gpu.Group, other)
			case other.IsGPU():
				gpu.GroupMembers = append(gpu.GroupMembers, other)
			}
		}
		out = append(out, gpu)
	}
	return out
}

// modelOf extracts the model from "GA100 [A100 PCIe 40GB]", the PCI database's format for chip and
// product.
func modelOf(name string) string {
	if _, rest, ok := strings.Cut(name, "["); ok {
		if model, _, ok := strings.Cut(rest, "]"); ok {
			return model
		}
	}
	return name
}
