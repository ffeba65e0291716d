package proxmox

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Devices returns every PCI function of a host, unfiltered (Sys.Audit on /).
func (c *PCIClient) Devices(ctx context.Context, host string) ([]pci.Function, error) {
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
		Mediated        wire.Bool `json:"mdev"`
		Physical        string    `json:"physfn"`
	}
	// By default the list leaves out devices that share groups with cards: bridges, memory
	// controllers.
	all, err := api.Look[[]entry](ctx, c.pve, api.NodePath(host, "hardware", "pci"), url.Values{"pci-class-blacklist": {""}})
	if err != nil {
		return nil, err
	}
	out := make([]pci.Function, 0, len(all))
	for _, e := range all {
		address, err := ParsePCIAddress(e.ID)
		if err != nil {
			continue // not a PCI address, so it cannot be passed through
		}
		d := pci.Function{
			Address: address, Class: bare(e.Class), Vendor: bare(e.Vendor), Device: bare(e.Device),
			IOMMUGroup: -1, VendorName: e.VendorName, Name: e.DeviceName, Mediated: bool(e.Mediated),
		}
		if at, err := ParsePCIAddress(e.Physical); err == nil {
			d.Physical = &at
		}
		if e.Group != nil {
			d.IOMMUGroup = int(*e.Group)
		}
		if e.SubsystemVendor != "" && e.SubsystemDevice != "" {
			d.Subsystem = bare(e.SubsystemVendor) + ":" + bare(e.SubsystemDevice)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b pci.Function) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// bare removes the 0x prefix from an id.
func bare(s string) string { return strings.TrimPrefix(strings.ToLower(s), "0x") }

// GPUs returns the NVIDIA cards of a host, sorted by address.
func (c *PCIClient) GPUs(ctx context.Context, host string) ([]GPU, error) {
	all, err := c.Devices(ctx, host)
	return pci.GPUs(all), err
}

// GPU returns the NVIDIA card of a host at an address, such as 41:00. The address may be that of
// any of the card's functions.
func (c *PCIClient) GPU(ctx context.Context, host, address string) (GPU, error) {
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
