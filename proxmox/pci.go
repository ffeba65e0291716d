package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// PCIAddress is the place of a device in a host. Function is -1 for the whole
// device, all its functions.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Slot     uint8
	Function int
}

var pciText = regexp.MustCompile(`^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7*]))?$`)

// ParsePCIAddress reads any spelling: 0000:01:00.0, 01:00.0, 01:00, 0000:41:00,
// 41:00.*, in upper or lower case. Without a function, or with *, it is the whole
// device.
func ParsePCIAddress(s string) (PCIAddress, error) {
	m := pciText.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil {
		return PCIAddress{}, fmt.Errorf("PCI address %q: write 01:00, 01:00.0 or 0000:01:00.0, as lspci -D does", s)
	}
	// The expression admits what fits only, but for a slot above 1f.
	domain, _ := strconv.ParseUint("0"+m[1], 16, 32)
	bus, _ := strconv.ParseUint(m[2], 16, 8)
	slot, _ := strconv.ParseUint(m[3], 16, 8)
	if slot > 0x1f {
		return PCIAddress{}, fmt.Errorf("PCI address %q: a device's number is at most 1f", s)
	}
	a := PCIAddress{Domain: uint32(domain), Bus: uint8(bus), Slot: uint8(slot), Function: -1}
	if m[4] != "" && m[4] != "*" {
		a.Function = int(m[4][0] - '0')
	}
	return a, nil
}

// String writes the address as Proxmox's mappings want it: 0000:01:00.0, or
// 0000:01:00 for all functions.
func (a PCIAddress) String() string {
	s := fmt.Sprintf("%04x:%02x:%02x", a.Domain, a.Bus, a.Slot)
	if a.Function >= 0 {
		s += fmt.Sprintf(".%d", a.Function)
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (a PCIAddress) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *PCIAddress) UnmarshalText(b []byte) (err error) {
	*a, err = ParsePCIAddress(string(b))
	return err
}

// Whole returns the address of the whole device.
func (a PCIAddress) Whole() PCIAddress { a.Function = -1; return a }

// Contains reports whether b is a or, when a is a whole device, one of its functions.
func (a PCIAddress) Contains(b PCIAddress) bool { return a == b || a.Function < 0 && a == b.Whole() }

// Compare orders addresses.
func (a PCIAddress) Compare(b PCIAddress) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Function, b.Function))
}

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
		ID              string   `json:"id"`
		Class           string   `json:"class"`
		Vendor          string   `json:"vendor"`
		Device          string   `json:"device"`
		SubsystemVendor string   `json:"subsystem_vendor"`
		SubsystemDevice string   `json:"subsystem_device"`
		VendorName      string   `json:"vendor_name"`
		DeviceName      string   `json:"device_name"`
		Group           *flexInt `json:"iommugroup"`
	}
	// By default the list leaves out what shares groups with cards: bridges, memory controllers.
	all, err := look[[]entry](ctx, c, nodePath(host, "hardware", "pci"), url.Values{"pci-class-blacklist": {""}})
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
