package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/proxmox/api"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Mapping is a resource mapping: a name for PCI devices that a token may give to
// VMs, where only root@pam itself may name the devices directly. Several devices
// of one host are alternatives, of which a VM gets the first free one.
type Mapping struct {
	ID          string
	Description string
	Devices     []MappedDevice
}

// MappedDevice is a device of a mapping, with what the host reports of it: a VM
// does not start when the two differ.
type MappedDevice struct {
	Host       string
	Address    PCIAddress // mostly without a function: the whole card
	ID         string     // 10de:20b2
	Subsystem  string     // 10de:1463
	IOMMUGroup int        // -1: none
}

// mapped returns the whole card as an entry of a mapping.
func (g GPU) mapped(host string) MappedDevice {
	return MappedDevice{Host: host, Address: g.Address.Whole(), ID: g.ID(), Subsystem: g.Subsystem, IOMMUGroup: g.IOMMUGroup}
}

// MapGPUs returns the mapping of whole cards of one host.
func MapGPUs(id, description, host string, gpus ...GPU) Mapping {
	m := Mapping{ID: id, Description: description}
	for _, g := range gpus {
		m.Devices = append(m.Devices, g.mapped(host))
	}
	return m
}

// MappingState is a mapping as it was seen.
type MappingState struct {
	Mapping
	Problems []string // what does not fit the hardware of the host that was checked
	Digest   string

	unread []string // entries that we cannot read
}

var mappingID = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*[a-zA-Z0-9_]$`)

func (m Mapping) check() error {
	if !mappingID.MatchString(m.ID) {
		return fmt.Errorf("mapping id %q: write a letter, then letters, digits, - and _", m.ID)
	}
	if len(m.Devices) == 0 {
		return fmt.Errorf("mapping %s has no devices", m.ID)
	}
	return nil
}

// count says how many devices m has.
func (m Mapping) count() string {
	if len(m.Devices) == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", len(m.Devices))
}

// line writes a device as the map option wants it.
func (d MappedDevice) line() string {
	p := wire.Properties{{Key: "node", Value: d.Host}, {Key: "path", Value: d.Address.String()}, {Key: "id", Value: d.ID}}
	if d.IOMMUGroup >= 0 {
		p = append(p, wire.Property{Key: "iommugroup", Value: strconv.Itoa(d.IOMMUGroup)})
	}
	return p.With("subsystem-id", d.Subsystem).String()
}

// parseMapped reads an entry of the map option.
func parseMapped(s string) (MappedDevice, error) {
	p, err := wire.ParseProperties(s)
	if err != nil {
		return MappedDevice{}, err
	}
	address, err := ParsePCIAddress(p.Get("path"))
	if err != nil {
		return MappedDevice{}, err
	}
	return MappedDevice{
		Host: p.Get("node"), Address: address, ID: p.Get("id"), Subsystem: p.Get("subsystem-id"),
		IOMMUGroup: wire.Number(p.Get("iommugroup"), -1),
	}, nil
}

// Diff returns how have differs from m. It is pure.
func (m Mapping) Diff(have *MappingState) drift.Diff {
	if have == nil {
		return drift.Missing("mapping of " + m.count())
	}
	var out drift.Diff
	out = append(out, drift.Compare("description", have.Description, m.Description, drift.Update)...)
	want, got := deviceLines(m.Devices), append(deviceLines(have.Devices), have.unread...)
	for _, w := range want {
		if !slices.Contains(got, w) {
			out = append(out, drift.Field{Path: "device", Want: w, Effect: drift.Update})
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			out = append(out, drift.Field{Path: "device", Have: g, Effect: drift.Update})
		}
	}
	if len(out) == 0 {
		for _, p := range have.Problems {
			out = append(out, drift.Field{Path: "hardware", Have: p, Want: "a mapping that fits", Effect: drift.Update})
		}
	}
	return out
}

func deviceLines(all []MappedDevice) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.line()
	}
	slices.Sort(out)
	return out
}

// Mappings returns the PCI mappings that the token may see, sorted by id. With a
// host, Proxmox compares them with that host's hardware and says what does not
// fit.
func (c *Client) Mappings(ctx context.Context, host string) ([]MappingState, error) {
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
	all, err := api.Look[[]entry](ctx, c.Client, "/cluster/mapping/pci", query)
	if err != nil {
		return nil, err
	}
	out := make([]MappingState, 0, len(all))
	for _, e := range all {
		s := MappingState{Mapping: Mapping{ID: e.ID, Description: strings.TrimSpace(e.Description)}, Digest: e.Digest}
		for _, line := range e.Map {
			if d, err := parseMapped(line); err == nil {
				s.Devices = append(s.Devices, d)
			} else {
				s.unread = append(s.unread, line)
			}
		}
		for _, check := range e.Checks {
			s.Problems = append(s.Problems, strings.TrimSpace(check.Message))
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b MappingState) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Mapping returns one mapping, compared with host's hardware when host is not
// empty; nil when there is none.
func (c *Client) Mapping(ctx context.Context, id, host string) (*MappingState, error) {
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

// EnsureMapping creates the mapping, or rewrites it when it differs or no longer
// fits the hardware, and asks Proxmox whether it fits then.
func (c *Client) EnsureMapping(ctx context.Context, m Mapping) error {
	if err := m.check(); err != nil {
		return err
	}
	host := m.Devices[0].Host
	have, err := c.Mapping(ctx, m.ID, host)
	if err != nil {
		return err
	}
	if diff := m.Diff(have); diff.Empty() {
		return nil
	}
	progress.Say(ctx, "mapping %s: %s", m.ID, m.count())
	lines := make([]string, len(m.Devices)) // in the caller's order, in which they are given out
	for i, d := range m.Devices {
		lines[i] = d.line()
	}
	p := api.Params{"map": lines}
	if m.Description != "" {
		p["description"] = m.Description
	}
	err = c.Settle(ctx, host, "", func() error {
		if have == nil {
			p["id"] = m.ID
			return c.Call(ctx, http.MethodPost, "/cluster/mapping/pci", p, nil)
		}
		delete(p, "id")
		if m.Description == "" && have.Description != "" {
			p["delete"] = "description"
		}
		return c.Call(ctx, http.MethodPut, "/cluster/mapping/pci/"+url.PathEscape(m.ID), p, nil)
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
func (c *Client) checkMapping(ctx context.Context, m Mapping) error {
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

// DeleteMapping deletes a mapping. One that is not there is no error; Proxmox
// deletes one that is in use as well.
func (c *Client) DeleteMapping(ctx context.Context, id string) error {
	err := c.Call(ctx, http.MethodDelete, "/cluster/mapping/pci/"+url.PathEscape(id), nil, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
