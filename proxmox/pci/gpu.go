package pci

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/unit"
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

// GPU is a graphics card in a host.
type GPU struct {
	Function
	Model     string     // the common name: A100 PCIe 40GB
	Functions []Function // the card's other functions: audio, USB
	Group     []Function // other devices in its IOMMU group, not part of the card
}

// Problem says why the card cannot be passed through, or returns "" if it can. All devices of an
// IOMMU group go to vfio together, so the host would lose any other device in the card's group.
func (g GPU) Problem() string {
	if g.IOMMUGroup < 0 {
		return "no IOMMU group: switch the IOMMU on in the firmware and on the kernel's command line"
	}
	if len(g.Group) > 0 {
		names := make([]string, len(g.Group))
		for i, d := range g.Group {
			names[i] = strings.TrimSpace(d.Address.String() + " " + d.Name)
		}
		return fmt.Sprintf("shares IOMMU group %d with %s: use another slot, or firmware with ACS", g.IOMMUGroup, strings.Join(names, ", "))
	}
	return ""
}

// GPUs finds the cards among a host's functions.
func GPUs(all []Function) []GPU {
	var out []GPU
	for _, d := range all {
		if !d.IsGPU() {
			continue
		}
		gpu := GPU{Function: d, Model: modelOf(d.Name)}
		for _, other := range all {
			switch {
			case other.Address == d.Address:
			case other.Address.Whole() == d.Address.Whole():
				gpu.Functions = append(gpu.Functions, other)
			case d.IOMMUGroup >= 0 && other.IOMMUGroup == d.IOMMUGroup && !other.isBridge():
				gpu.Group = append(gpu.Group, other)
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
