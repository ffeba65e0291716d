package pci

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Endpoints answer for PCI functions and for their mappings.
func Endpoints() map[string]world.Handler {
	const mapping = "/cluster/mapping/pci"
	return map[string]world.Handler{
		"GET " + mapping:                                          listMappings,
		"POST " + mapping:                                         createMapping,
		"GET " + mapping + "/{id}":                                getMapping,
		"PUT " + mapping + "/{id}":                                updateMapping,
		"DELETE " + mapping + "/{id}":                             deleteMapping,
		"GET /nodes/{node}/hardware/pci":                          listPCI,
		"GET /nodes/{node}/hardware/pci/{pci-id-or-mapping}/mdev": mediatedTypes,
	}
}

// mapKeys is the format of an entry.
func mapKeys(s *world.State) map[string]*schema.Property {
	return s.Schema.Methods["POST /cluster/mapping/pci"].Parameters["map"].Items.Format.Keys
}

// EntryProps reads one entry of a mapping.
func EntryProps(s *world.State, entry string) map[string]string {
	out, err := schema.ParseProps(mapKeys(s), entry)
	if err != nil {
		return map[string]string{}
	}
	return out
}

// mappingDigest is that of the one file in which all of them are.
func mappingDigest(s *world.State) string {
	h := sha1.New()
	for _, id := range slices.Sorted(maps.Keys(s.Mappings)) {
		m := s.Mappings[id]
		fmt.Fprintln(h, id, m.Description, m.Flags, m.Entries)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func mappingEntry(s *world.State, m *world.Mapping) map[string]any {
	e := map[string]any{"type": "pci", "map": m.Entries, "digest": mappingDigest(s)}
	if m.Description != "" {
		e["description"] = m.Description
	}
	for k, on := range m.Flags {
		e[k] = answer.Flag(on)
	}
	return e
}

func listMappings(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Mappings)) {
		if !access.CanAny(c.State, c.Who, "/mapping/pci/"+id, "Mapping.Modify", "Mapping.Use", "Mapping.Audit") {
			continue
		}
		m := c.State.Mappings[id]
		e := mappingEntry(c.State, m)
		e["id"] = id
		if node := c.Param("check-node"); node != "" {
			e["checks"] = mappingChecks(c.State, m, node)
		}
		out = append(out, e)
	}
	return out, nil
}

// Check is one thing that is wrong with a mapping, and how bad that is.
type Check struct {
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

// mappingChecks are what is wrong with a mapping on a node.
func mappingChecks(s *world.State, m *world.Mapping, node string) []Check {
	out := []Check{}
	found := false
	for _, entry := range m.Entries {
		e := EntryProps(s, entry)
		if e["node"] != node {
			continue
		}
		found = true
		if err := assertValid(s, m, e); err != nil {
			out = append(out, Check{"error", "Invalid configuration: " + err.Error() + "\n"})
		}
	}
	if !found {
		out = append(out, Check{"warning", fmt.Sprintf("No mapping for node %s.", node)})
	}
	return out
}

// assertValid checks an entry against the hardware of its node
// (PVE/Mapping/PCI.pm): same properties, and the same letters in them.
func assertValid(s *world.State, m *world.Mapping, e map[string]string) error {
	h := s.Hosts[e["node"]]
	for n, path := range strings.Split(e["path"], ";") {
		if !strings.Contains(path, ".") {
			path += ".0"
		}
		var d *model.PCIDevice
		if h != nil {
			d = h.Devices[path]
		}
		if d == nil {
			return answer.Die("pci device '%s' not found", path)
		}
		mdev := func(b bool) string { return strconv.Itoa(answer.Flag(b)) }
		real := map[string]string{"id": d.ID, "subsystem-id": d.Subsystem, "mdev": mdev(d.MDev)}
		if group(h, d) >= 0 {
			real["iommugroup"] = strconv.Itoa(group(h, d))
		}
		set := map[string]string{"id": e["id"], "subsystem-id": e["subsystem-id"], "iommugroup": e["iommugroup"], "mdev": mdev(m.Flags["mdev"])}
		for _, k := range []string{"id", "iommugroup", "mdev", "subsystem-id"} {
			switch {
			case real[k] == set[k], k == "iommugroup" && n > 0: // that of the first path alone is looked at
			case set[k] == "":
				return answer.Die("missing expected property '%s' for device '%s'", k, path)
			case real[k] == "":
				return answer.Die("unexpected property '%s' configured for device '%s'", k, path)
			default:
				return answer.Die("'%s' does not match for '%s' (%s != %s)", k, m.ID, real[k], set[k])
			}
		}
	}
	return nil
}

func createMapping(c *world.Call) (any, error) {
	id := c.Param("id")
	if c.State.Mappings[id] != nil {
		return nil, answer.Die("create hardware mapping failed: pci ID '%s' already defined", id)
	}
	m := &world.Mapping{ID: id, Description: c.Param("description"), Entries: slices.Clone(c.Params["map"])}
	setFlags(c, m)
	c.State.Mappings[id] = m
	return nil, nil
}

// setFlags notes what a call says of a mapping's flags.
func setFlags(c *world.Call, m *world.Mapping) {
	for _, k := range []string{"mdev", "live-migration-capable"} {
		if c.Params.Has(k) {
			if m.Flags == nil {
				m.Flags = map[string]bool{}
			}
			m.Flags[k] = c.Params.Bool(k)
		}
	}
}

func getMapping(c *world.Call) (any, error) {
	m := c.State.Mappings[c.Param("id")]
	if m == nil {
		return nil, answer.Die("mapping '%s' not found", c.Param("id"))
	}
	return mappingEntry(c.State, m), nil
}

func updateMapping(c *world.Call) (any, error) {
	m := c.State.Mappings[c.Param("id")]
	const failed = "update hardware mapping failed: "
	if d := c.Param("digest"); d != "" && d != mappingDigest(c.State) {
		return nil, answer.Die(failed + "detected modified configuration - file changed by other user? Try again.")
	}
	if m == nil {
		return nil, answer.Die(failed+"pci ID '%s' does not exist", c.Param("id"))
	}
	if !c.Params.Has("map") {
		return nil, answer.Die(failed + "missing value for required option 'map'")
	}
	m.Entries = slices.Clone(c.Params["map"])
	if c.Params.Has("description") {
		m.Description = c.Param("description")
	}
	setFlags(c, m)
	for _, k := range schema.SplitList(c.Param("delete")) {
		switch k {
		case "description":
			m.Description = ""
		default:
			delete(m.Flags, k)
		}
	}
	return nil, nil
}

// deleteMapping never refuses: one that is in use, or is not there, neither.
func deleteMapping(c *world.Call) (any, error) {
	delete(c.State.Mappings, c.Param("id"))
	return nil, nil
}

// blacklist is what a listing of PCI devices leaves out unless told otherwise:
// memory controllers, bridges and processors.
const blacklist = "05;06;0b"

func listPCI(c *world.Call) (any, error) {
	hide := blacklist
	if _, given := c.Params["pci-class-blacklist"]; given {
		hide = c.Param("pci-class-blacklist")
	}
	h := c.Host()
	out := []any{}
	for _, address := range slices.Sorted(maps.Keys(h.Devices)) {
		d := h.Devices[address]
		if slices.ContainsFunc(schema.SplitList(hide), func(class string) bool { return strings.HasPrefix(d.Class, class) }) {
			continue
		}
		if c.Params.Has("verbose") && !c.Params.Bool("verbose") {
			all := describe(c.State, h, d)
			short := map[string]any{}
			for _, k := range []string{"id", "class", "vendor", "device", "iommugroup"} {
				short[k] = all[k]
			}
			out = append(out, short)
			continue
		}
		out = append(out, describe(c.State, h, d))
	}
	return out, nil
}

// makers are the names that pci.ids has for those who build cards.
var makers = map[string]string{"1022": "Advanced Micro Devices, Inc. [AMD]", "1028": "Dell", "1043": "ASUSTeK Computer Inc.", "10de": "NVIDIA Corporation",
	"1458": "Gigabyte Technology Co., Ltd", "1462": "Micro-Star International Co., Ltd. [MSI]", "15d9": "Super Micro Computer Inc", "1af4": "Red Hat, Inc.",
	"3842": "eVGA Corp.", "8086": "Intel Corporation"}

func describe(s *world.State, h *world.Host, d *model.PCIDevice) map[string]any {
	vendor, device, _ := strings.Cut(d.ID, ":")
	e := map[string]any{"id": d.Address, "class": "0x" + d.Class, "vendor": "0x" + vendor, "device": "0x" + device, "iommugroup": group(h, d)}
	if d.Vendor != "" {
		e["vendor_name"] = d.Vendor
	}
	if d.Name != "" {
		e["device_name"] = d.Name
	}
	if subVendor, subDevice, ok := strings.Cut(d.Subsystem, ":"); ok {
		e["subsystem_vendor"], e["subsystem_device"] = "0x"+subVendor, "0x"+subDevice
		if subVendor == vendor && d.Vendor != "" {
			e["subsystem_vendor_name"] = d.Vendor
		} else if name := makers[subVendor]; name != "" {
			e["subsystem_vendor_name"] = name
		}
	}
	if d.MDev {
		e["mdev"] = 1
	}
	if !release.Before(s, 9, 2) { // since libpve-common-perl 9.1.12
		addLinks(h, d, e)
	}
	return e
}

// addLinks adds what sysfs links a function to: its physical one, or its virtual ones.
func addLinks(h *world.Host, d *model.PCIDevice, e map[string]any) {
	if d.VirtualOf != "" {
		e["physfn"] = d.VirtualOf
	}
	virtual := map[string]any{}
	for _, address := range slices.Sorted(maps.Keys(h.Devices)) {
		if h.Devices[address].VirtualOf == d.Address {
			virtual["virtfn"+strconv.Itoa(len(virtual))] = address
		}
	}
	if len(virtual) > 0 {
		e["virtfns"] = virtual
	}
}

// group is the device's IOMMU group as the kernel shows it.
func group(h *world.Host, d *model.PCIDevice) int {
	if h.NoIOMMU {
		return -1
	}
	return d.Group
}
