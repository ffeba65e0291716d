package pci

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Mapping is a resource mapping: a name for PCI devices that a token may give to VMs. Without a
// mapping, only root@pam may give devices to VMs. Several devices of one host are alternatives: a
// VM gets the first that is free.
type Mapping struct {
	ID          string
	Description string
	Devices     []MappedDevice
}

// MappedDevice is a device of a mapping, with the properties that the host reported. If they differ
// from the hardware, a VM with the device does not start.
type MappedDevice struct {
	Host       string
	Address    unit.PCIAddress // usually without a function: the whole card
	ID         string          // 10de:20b2
	Subsystem  string          // 10de:1463
	IOMMUGroup int             // -1: none
}

// mappedDevice returns the whole card as an entry of a mapping. With virtual functions in its slot the
// entry is the physical one alone: a whole slot would be all of them.
func (g GPU) mappedDevice(host string) MappedDevice {
	address := g.Address.Whole()
	if slices.ContainsFunc(g.Virtual, func(v Function) bool { return address.Contains(v.Address) }) {
		address = g.Address
	}
	return MappedDevice{Host: host, Address: address, ID: g.ID(), Subsystem: g.Subsystem, IOMMUGroup: g.IOMMUGroup}
}

// MapGPUs returns the mapping of whole cards of one host.
func MapGPUs(id, description, host string, gpus ...GPU) Mapping {
	m := Mapping{ID: id, Description: description}
	for _, g := range gpus {
		m.Devices = append(m.Devices, g.mappedDevice(host))
	}
	return m
}

// MappingState is the observed state of a mapping.
type MappingState struct {
	Mapping
	Problems []string // what does not fit the hardware of the host that was checked
	Digest   string

	unread []string // entries that could not be parsed
}

var mappingID = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*[a-zA-Z0-9_]$`)

func (m Mapping) Check() error {
	if !mappingID.MatchString(m.ID) {
		return fmt.Errorf("mapping id %q: write a letter, then letters, digits, - and _", m.ID)
	}
	if len(m.Devices) == 0 {
		return fmt.Errorf("mapping %s has no devices", m.ID)
	}
	return nil
}

// Count says how many devices m has.
func (m Mapping) Count() string {
	if len(m.Devices) == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", len(m.Devices))
}

// Line returns a device in the format of the map option.
func (d MappedDevice) Line() string {
	p := wire.Properties{{Key: "node", Value: d.Host}, {Key: "path", Value: d.Address.String()}, {Key: "id", Value: d.ID}}
	if d.IOMMUGroup >= 0 {
		p = append(p, wire.Property{Key: "iommugroup", Value: strconv.Itoa(d.IOMMUGroup)})
	}
	return p.With("subsystem-id", d.Subsystem).String()
}

// Add parses an entry of the map option.
func (m *MappingState) Add(line string) {
	if d, err := parseMapped(line); err == nil {
		m.Devices = append(m.Devices, d)
	} else {
		m.unread = append(m.unread, line)
	}
}

// parseMapped parses an entry of the map option.
func parseMapped(s string) (MappedDevice, error) {
	p, err := wire.ParseProperties(s)
	if err != nil {
		return MappedDevice{}, err
	}
	address, err := unit.ParsePCIAddress(p.Get("path"))
	if err != nil {
		return MappedDevice{}, err
	}
	return MappedDevice{
		Host: p.Get("node"), Address: address, ID: p.Get("id"), Subsystem: p.Get("subsystem-id"),
		IOMMUGroup: wire.Number(p.Get("iommugroup"), -1),
	}, nil
}

// Diff returns how have differs from m. It is pure.
func (m Mapping) Diff(have *MappingState) converge.Diff {
	if have == nil {
		return converge.Missing("mapping of " + m.Count())
	}
	var out converge.Diff
	out = append(out, converge.Compare("description", have.Description, m.Description, converge.Update)...)
	want, got := deviceLines(m.Devices), append(deviceLines(have.Devices), have.unread...)
	for _, w := range want {
		if !slices.Contains(got, w) {
			out = append(out, converge.Field{Path: "device", Want: w, Effect: converge.Update})
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			out = append(out, converge.Field{Path: "device", Have: g, Effect: converge.Update})
		}
	}
	if len(out) == 0 {
		for _, p := range have.Problems {
			out = append(out, converge.Field{Path: "hardware", Have: p, Want: "a mapping that fits", Effect: converge.Update})
		}
	}
	return out
}

func deviceLines(all []MappedDevice) []string {
	out := make([]string, len(all))
	for i, d := range all {
		out[i] = d.Line()
	}
	slices.Sort(out)
	return out
}
