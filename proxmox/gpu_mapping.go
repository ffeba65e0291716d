package proxmox

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
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
	all, err := api.GetShared[[]entry](ctx, c.pve, api.NodePath(host, "hardware", "pci"), url.Values{"pci-class-blacklist": {""}})
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
	sortBy(out, func(a, b pci.Function) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// bare removes the 0x prefix from an id.
func bare(s string) string { return strings.TrimPrefix(strings.ToLower(s), "0x") }

// GPUs returns the NVIDIA cards of a host, sorted by address.
func (c *PCIClient) GPUs(ctx context.Context, host string) ([]pci.GPU, error) {
	all, err := c.Devices(ctx, host)
	return pci.GPUs(all), err
}

// GPU returns the NVIDIA card of a host at an address, such as 41:00. The address may be that of
// any of the card's functions.
func (c *PCIClient) GPU(ctx context.Context, host, address string) (pci.GPU, error) {
	at, err := ParsePCIAddress(address)
	if err != nil {
		return pci.GPU{}, err
	}
	all, err := c.GPUs(ctx, host)
	if err != nil {
		return pci.GPU{}, err
	}
	i := slices.IndexFunc(all, func(g pci.GPU) bool { return g.Address.Whole() == at.Whole() })
	if i < 0 {
		have := make([]string, len(all))
		for k, g := range all {
			have[k] = g.Address.String()
		}
		return pci.GPU{}, fmt.Errorf("proxmox: %s has no NVIDIA card at %s; it has [%s]", host, at, strings.Join(have, " "))
	}
	return all[i], nil
}

// Mappings returns the PCI mappings that the token may see, sorted by id. If host is not empty,
// Proxmox compares them with that host's hardware and reports what does not fit.
func (c *PCIClient) Mappings(ctx context.Context, host string) ([]pci.MappingState, error) {
	all, err := c.readMappings(ctx, mappingPCI, host)
	if err != nil {
		return nil, err
	}
	out := make([]pci.MappingState, 0, len(all))
	for _, e := range all {
		s := pci.MappingState{Mapping: pci.Mapping{ID: e.ID, Description: e.Description}, Digest: e.Digest, Problems: e.problems()}
		for _, line := range e.Map {
			s.Add(line)
		}
		out = append(out, s)
	}
	return out, nil
}

// Mapping returns one mapping, or nil if there is none. If host is not empty, Proxmox compares the
// mapping with that host's hardware.
func (c *PCIClient) Mapping(ctx context.Context, id, host string) (*pci.MappingState, error) {
	all, err := c.Mappings(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.ID == id {
			return &m, nil
		}
	}
	return nil, nil
}

// MappingInUseError reports a mapping that was not rewritten, because a VM uses it: the VM would get
// other cards at its next start.
type MappingInUseError struct {
	ID   string
	User Summary // one of the VMs that use it
}

// Error names the VM, and says what to do.
func (e *MappingInUseError) Error() string {
	return fmt.Sprintf("proxmox: mapping %s differs, and VM %d (%s) on %s uses it: it is not changed, since that VM would get other cards at its next start\n"+
		"  name another mapping, or detach this one from the VM first", e.ID, e.User.VMID, e.User.Name, e.User.Host)
}

// EnsureMapping creates the mapping, or rewrites it if it differs or no longer fits the hardware and
// no VM uses it. One that a VM uses is a [*MappingInUseError]. Afterwards it checks with Proxmox that
// the mapping fits.
func (c *PCIClient) EnsureMapping(ctx context.Context, m pci.Mapping) error {
	return c.writeMapping(ctx, m, func() error {
		holders, err := c.client.VMs.Holders(ctx, "")
		if err != nil {
			return err
		}
		if by, held := holders.Mapping(m.ID); held {
			return &MappingInUseError{ID: m.ID, User: by}
		}
		if len(holders.Unreadable) > 0 {
			silent := holders.Unreadable[0]
			return fmt.Errorf("proxmox: mapping %s differs, and is not changed, since VM %d on %s may use it: %w", m.ID, silent.VMID, silent.Host, silent.Err)
		}
		return nil
	})
}

// RewriteMapping is [PCIClient.EnsureMapping] for the owner of the VMs that use the mapping: it rewrites
// one in use, too.
func (c *PCIClient) RewriteMapping(ctx context.Context, m pci.Mapping) error {
	return c.writeMapping(ctx, m, func() error { return nil })
}

// writeMapping makes a mapping, or rewrites one that differs, if that is allowed.
func (c *PCIClient) writeMapping(ctx context.Context, m pci.Mapping, allowed func() error) error {
	if err := m.Check(); err != nil {
		return err
	}
	host := m.Devices[0].Host
	have, err := c.Mapping(ctx, m.ID, host)
	if err != nil {
		return err
	}
	if m.Diff(have).Empty() {
		return nil
	}
	if have != nil {
		if err := allowed(); err != nil {
			return err
		}
	}
	converge.Progressf(ctx, "mapping %s: %s", m.ID, m.Count())
	lines := make([]string, len(m.Devices)) // in the caller's order, which is the order of allocation
	for i, d := range m.Devices {
		lines[i] = d.Line()
	}
	err = c.pve.Retry(ctx, host, "", func() error {
		p := api.Params{"map": lines}
		if m.Description != "" {
			p["description"] = m.Description
		} else if have != nil && have.Description != "" {
			p["delete"] = "description"
		}
		return c.saveMapping(ctx, mappingPCI, m.ID, have != nil, p)
	}, func() (bool, error) {
		have, err = c.Mapping(ctx, m.ID, host)
		return err == nil && m.Diff(have).Empty(), err
	})
	if err != nil {
		return fmt.Errorf("mapping %s: %w", m.ID, err)
	}
	return c.checkMapping(ctx, m)
}

// checkMapping asks Proxmox whether the mapping fits each host's hardware.
func (c *PCIClient) checkMapping(ctx context.Context, m pci.Mapping) error {
	hosts := map[string]bool{}
	for _, d := range m.Devices {
		if hosts[d.Host] {
			continue
		}
		hosts[d.Host] = true
		now, err := c.Mapping(ctx, m.ID, d.Host)
		switch {
		case err != nil:
			return err
		case now == nil:
			return hiddenMappingError(mappingPCI, m.ID)
		case len(now.Problems) > 0:
			return fmt.Errorf("mapping %s does not fit the hardware of %s: %s", m.ID, d.Host, strings.Join(now.Problems, "; "))
		}
	}
	return nil
}

// DeleteMapping deletes a mapping. A missing mapping is not an error. Proxmox deletes a mapping
// even if it is in use.
func (c *PCIClient) DeleteMapping(ctx context.Context, id string) error {
	return c.deleteMapping(ctx, mappingPCI, id)
}
