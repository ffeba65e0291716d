package proxmox

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/unit"
)

// PCIAddress is the place of a device in a host. Function is -1 for the whole
// device, all its functions.
type PCIAddress = unit.PCIAddress

// ParsePCIAddress is [unit.ParsePCIAddress].
func ParsePCIAddress(s string) (PCIAddress, error) { return unit.ParsePCIAddress(s) }

// PCIDevice is one function of a device in a host. Ids are written as Proxmox's
// mappings want them: lower case, without 0x.
type PCIDevice struct {
	Address    PCIAddress
	Class      string // 030200
	Vendor     string // 10de
	Device     string // 20b2
	Subsystem  string // 10de:1463; empty when the host reports none
	IOMMUGroup int    // -1: none, so it cannot be passed through
	VendorName string
	Name       string // NVIDIA A100 …; what the host's PCI database calls it
}

// ID returns vendor and device: 10de:20b2.
func (d PCIDevice) ID() string { return d.Vendor + ":" + d.Device }

// IsGPU reports whether d is a display or 3D controller of NVIDIA.
func (d PCIDevice) IsGPU() bool { return strings.HasPrefix(d.Class, "03") && d.Vendor == "10de" }

// isBridge: PCI bridges share groups with what is behind them and stay with the host
// (pve-common, PVE/SysFSTools.pm, pci_dev_group_bind_to_vfio). Of AMD's host bridges
// there is one beside each of them in the group; no driver has it, so nothing is torn away.
func (d PCIDevice) isBridge() bool {
	return strings.HasPrefix(d.Class, "0604") || strings.HasPrefix(d.Class, "0600")
}

// GPU is a graphics card in a host.
type GPU struct {
	PCIDevice
	Model     string      // what people call it: A100 PCIe 40GB
	Functions []PCIDevice // the card's other functions: audio, USB
	Group     []PCIDevice // what else is in its IOMMU group and not part of the card
}

// Problem says why the card cannot be passed through, "" when it can. Every
// device of an IOMMU group goes to vfio together, so a stranger in the card's
// group would be torn from the host.
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

// Devices returns every PCI function of a host, unfiltered (Sys.Audit on /).
func (c *Client) Devices(ctx context.Context, host string) ([]PCIDevice, error) {
	type entry struct {
		ID              string    `json:"id"`
		Class           string    `json:"class"`
		Vendor          string    `json:"vendor"`
		Device          string    `json:"device"`
		SubsystemVendor string    `json:"subsystem_vendor"`
		SubsystemDevice string    `json:"subsystem_device"`
		VendorName      string    `json:"vendor_name"`
		DeviceName      string    `json:"device_name"`
		Group           *wire.Int `json:"iommugroup"`
	}
	// By default the list leaves out what shares groups with cards: bridges, memory controllers.
	all, err := api.Look[[]entry](ctx, c.Client, api.NodePath(host, "hardware", "pci"), url.Values{"pci-class-blacklist": {""}})
	if err != nil {
		return nil, err
	}
	out := make([]PCIDevice, 0, len(all))
	for _, e := range all {
		address, err := ParsePCIAddress(e.ID)
		if err != nil {
			continue // not a PCI address: nothing that can be passed through
		}
		d := PCIDevice{
			Address: address, Class: bare(e.Class), Vendor: bare(e.Vendor), Device: bare(e.Device),
			IOMMUGroup: -1, VendorName: e.VendorName, Name: e.DeviceName,
		}
		if e.Group != nil {
			d.IOMMUGroup = int(*e.Group)
		}
		if e.SubsystemVendor != "" && e.SubsystemDevice != "" {
			d.Subsystem = bare(e.SubsystemVendor) + ":" + bare(e.SubsystemDevice)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b PCIDevice) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// bare takes the 0x off an id.
func bare(s string) string { return strings.TrimPrefix(strings.ToLower(s), "0x") }

// GPUs returns the NVIDIA cards of a host, sorted by address.
func (c *Client) GPUs(ctx context.Context, host string) ([]GPU, error) {
	all, err := c.Devices(ctx, host)
	return gpusAmong(all), err
}

// GPU returns the NVIDIA card of a host at an address, such as 41:00, which may be that of
// any of its functions.
func (c *Client) GPU(ctx context.Context, host, address string) (GPU, error) {
	at, err := ParsePCIAddress(address)
	if err != nil {
		return GPU{}, err
	}
	all, err := c.GPUs(ctx, host)
	if err != nil {
		return GPU{}, err
	}
	i := slices.IndexFunc(all, func(g GPU) bool { return g.Address.Whole() == at.Whole() })
	if i < 0 {
		have := make([]string, len(all))
		for k, g := range all {
			have[k] = g.Address.String()
		}
		return GPU{}, fmt.Errorf("proxmox: %s has no NVIDIA card at %s; it has [%s]", host, at, strings.Join(have, " "))
	}
	return all[i], nil
}

// gpusAmong finds the cards among a host's functions.
func gpusAmong(all []PCIDevice) []GPU {
	var out []GPU
	for _, d := range all {
		if !d.IsGPU() {
			continue
		}
		gpu := GPU{PCIDevice: d, Model: modelOf(d.Name)}
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

// modelOf takes the model's name out of "GA100 [A100 PCIe 40GB]", which is how
// the PCI database writes chip and product.
func modelOf(name string) string {
	if _, rest, ok := strings.Cut(name, "["); ok {
		if model, _, ok := strings.Cut(rest, "]"); ok {
			return model
		}
	}
	return name
}
