package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Mappings returns the PCI mappings that the token may see, sorted by id. If host is not empty,
// Proxmox compares them with that host's hardware and reports what does not fit.
func (c *PCIClient) Mappings(ctx context.Context, host string) ([]pci.MappingState, error) {
	type entry struct {
		ID          string   `json:"id"`
		Description string   `json:"description"`
		Map         []string `json:"map"`
		Digest      string   `json:"digest"`
		Checks      []struct {
			Message  string `json:"message"`
			Severity string `json:"severity"`
		} `json:"checks"`
	}
	query := url.Values{}
	if host != "" {
		query.Set("check-node", host)
	}
	all, err := api.Look[[]entry](ctx, c.pve, "/cluster/mapping/pci", query)
	if err != nil {
		return nil, err
	}
	out := make([]pci.MappingState, 0, len(all))
	for _, e := range all {
		s := pci.MappingState{Mapping: Mapping{ID: e.ID, Description: strings.TrimSpace(e.Description)}, Digest: e.Digest}
		for _, line := range e.Map {
			s.Add(line)
		}
		for _, check := range e.Checks {
			s.Problems = append(s.Problems, strings.TrimSpace(check.Message))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b pci.MappingState) int { return strings.Compare(a.ID, b.ID) })
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
	ID string
	By Summary // one of the VMs that use it
}

// Error names the VM, and says what to do.
func (e *MappingInUseError) Error() string {
	return fmt.Sprintf("proxmox: mapping %s differs, and VM %d (%s) on %s uses it: it is not changed, since that VM would get other cards at its next start\n"+
		"  name another mapping, or detach this one from the VM first", e.ID, e.By.VMID, e.By.Name, e.By.Host)
}

// EnsureMapping creates the mapping, or rewrites it if it differs or no longer fits the hardware and
// no VM uses it. One that a VM uses is a [*MappingInUseError]. Afterwards it checks with Proxmox that
// the mapping fits.
func (c *PCIClient) EnsureMapping(ctx context.Context, m Mapping) error {
	return c.writeMapping(ctx, m, func() error {
		holders, err := c.client.VMs.Holders(ctx, "")
		if err != nil {
			return err
		}
		if by, held := holders.Mapping(m.ID); held {
			return &MappingInUseError{ID: m.ID, By: by}
		}
		if len(holders.Silent) > 0 {
			silent := holders.Silent[0]
			return fmt.Errorf("proxmox: mapping %s differs, and is not changed, since VM %d on %s may use it: %w", m.ID, silent.VMID, silent.Host, silent.Err)
		}
		return nil
	})
}

// RewriteMapping is [PCIClient.EnsureMapping] for the owner of the VMs that use the mapping: it rewrites
// one in use, too.
func (c *PCIClient) RewriteMapping(ctx context.Context, m Mapping) error {
	return c.writeMapping(ctx, m, func() error { return nil })
}

// writeMapping makes a mapping, or rewrites one that differs, if that is allowed.
func (c *PCIClient) writeMapping(ctx context.Context, m Mapping, allowed func() error) error {
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
	progress.Say(ctx, "mapping %s: %s", m.ID, m.Count())
	lines := make([]string, len(m.Devices)) // in the caller's order, which is the order of allocation
	for i, d := range m.Devices {
		lines[i] = d.Line()
	}
	p := api.Params{"map": lines}
	if m.Description != "" {
		p["description"] = m.Description
	}
	err = c.pve.Settle(ctx, host, "", func() error {
		if have == nil {
			p["id"] = m.ID
			return c.pve.Call(ctx, http.MethodPost, "/cluster/mapping/pci", p, nil)
		}
		delete(p, "id")
		if m.Description == "" && have.Description != "" {
			p["delete"] = "description"
		}
		return c.pve.Call(ctx, http.MethodPut, "/cluster/mapping/pci/"+url.PathEscape(m.ID), p, nil)
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
func (c *PCIClient) checkMapping(ctx context.Context, m Mapping) error {
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
			return fmt.Errorf("mapping %s was created, but the token cannot see it: it lacks Mapping.Use or Mapping.Audit on /mapping/pci/%s", m.ID, m.ID)
		case len(now.Problems) > 0:
			return fmt.Errorf("mapping %s does not fit the hardware of %s: %s", m.ID, d.Host, strings.Join(now.Problems, "; "))
		}
	}
	return nil
}

// DeleteMapping deletes a mapping. A missing mapping is not an error. Proxmox deletes a mapping
// even if it is in use.
func (c *PCIClient) DeleteMapping(ctx context.Context, id string) error {
	err := c.pve.Call(ctx, http.MethodDelete, "/cluster/mapping/pci/"+url.PathEscape(id), nil, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
