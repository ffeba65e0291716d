package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// pciHandlers answer for PCI functions and for their mappings.
func pciHandlers() map[string]handler {
	const mapping = "/cluster/mapping/pci"
	return map[string]handler{
		"GET " + mapping:                                          (*call).listMappings,
		"POST " + mapping:                                         (*call).createMapping,
		"GET " + mapping + "/{id}":                                (*call).getMapping,
		"PUT " + mapping + "/{id}":                                (*call).updateMapping,
		"DELETE " + mapping + "/{id}":                             (*call).deleteMapping,
		"GET /nodes/{node}/hardware/pci":                          (*call).listPCI,
		"GET /nodes/{node}/hardware/pci/{pci-id-or-mapping}/mdev": (*call).mediated,
	}
}

// mapKeys is the format of an entry.
func (s *state) mapKeys() map[string]*property {
	return s.schema.Methods["POST /cluster/mapping/pci"].Parameters["map"].Items.Format.Keys
}

func (s *state) entryProps(entry string) map[string]string {
	out, err := parseProps(s.mapKeys(), entry)
	if err != nil {
		return map[string]string{}
	}
	return out
}

// mappingDigest is that of the one file in which all of them are.
func (s *state) mappingDigest() string {
	h := sha1.New()
	for _, id := range slices.Sorted(maps.Keys(s.mappings)) {
		m := s.mappings[id]
		fmt.Fprintln(h, id, m.description, m.flags, m.entries)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *state) mappingEntry(m *mapping) map[string]any {
	e := map[string]any{"type": "pci", "map": m.entries, "digest": s.mappingDigest()}
	if m.description != "" {
		e["description"] = m.description
	}
	for k, on := range m.flags {
		e[k] = boolInt(on)
	}
	return e
}

func (c *call) listMappings() (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.mappings)) {
		if !c.s.canAny(c.who, "/mapping/pci/"+id, "Mapping.Modify", "Mapping.Use", "Mapping.Audit") {
			continue
		}
		m := c.s.mappings[id]
		e := c.s.mappingEntry(m)
		e["id"] = id
		if node := c.param("check-node"); node != "" {
			e["checks"] = c.s.mappingChecks(m, node)
		}
		out = append(out, e)
	}
	return out, nil
}

type mappingCheck struct {
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

// mappingChecks are what is wrong with a mapping on a node.
func (s *state) mappingChecks(m *mapping, node string) []mappingCheck {
	out := []mappingCheck{}
	found := false
	for _, entry := range m.entries {
		e := s.entryProps(entry)
		if e["node"] != node {
			continue
		}
		found = true
		if err := s.assertValid(m, e); err != nil {
			out = append(out, mappingCheck{"error", "Invalid configuration: " + err.Error() + "\n"})
		}
	}
	if !found {
		out = append(out, mappingCheck{"warning", fmt.Sprintf("No mapping for node %s.", node)})
	}
	return out
}

// assertValid holds an entry against the hardware of its node
// (PVE/Mapping/PCI.pm): same properties, and the same letters in them.
func (s *state) assertValid(m *mapping, e map[string]string) error {
	h := s.hosts[e["node"]]
	for path := range strings.SplitSeq(e["path"], ";") {
		if !strings.Contains(path, ".") {
			path += ".0"
		}
		var d *PCIDevice
		if h != nil {
			d = h.devices[path]
		}
		if d == nil {
			return die("pci device '%s' not found", path)
		}
		mdev := func(b bool) string { return strconv.Itoa(boolInt(b)) }
		real := map[string]string{"id": d.ID, "subsystem-id": d.Subsystem, "mdev": mdev(d.MDev && m.flags["mdev"])}
		if h.group(d) >= 0 {
			real["iommugroup"] = strconv.Itoa(h.group(d))
		}
		set := map[string]string{"id": e["id"], "subsystem-id": e["subsystem-id"], "iommugroup": e["iommugroup"], "mdev": mdev(m.flags["mdev"])}
		for _, k := range []string{"id", "iommugroup", "mdev", "subsystem-id"} {
			switch {
			case real[k] == set[k]:
			case set[k] == "":
				return die("missing expected property '%s' for device '%s'", k, path)
			case real[k] == "":
				return die("unexpected property '%s' configured for device '%s'", k, path)
			default:
				return die("'%s' does not match for '%s' (%s != %s)", k, m.id, real[k], set[k])
			}
		}
	}
	return nil
}

func (c *call) createMapping() (any, error) {
	id := c.param("id")
	if c.s.mappings[id] != nil {
		return nil, die("create hardware mapping failed: pci ID '%s' already defined", id)
	}
	m := &mapping{id: id, description: c.param("description"), entries: slices.Clone(c.p["map"])}
	c.setFlags(m)
	c.s.mappings[id] = m
	return nil, nil
}

// setFlags notes what a call says of a mapping's flags.
func (c *call) setFlags(m *mapping) {
	for _, k := range []string{"mdev", "live-migration-capable"} {
		if c.p.has(k) {
			if m.flags == nil {
				m.flags = map[string]bool{}
			}
			m.flags[k] = c.p.bool(k)
		}
	}
}

func (c *call) getMapping() (any, error) {
	m := c.s.mappings[c.param("id")]
	if m == nil {
		return nil, die("mapping '%s' not found", c.param("id"))
	}
	return c.s.mappingEntry(m), nil
}

func (c *call) updateMapping() (any, error) {
	m := c.s.mappings[c.param("id")]
	const failed = "update hardware mapping failed: "
	if d := c.param("digest"); d != "" && d != c.s.mappingDigest() {
		return nil, die(failed + "detected modified configuration - file changed by other user? Try again.")
	}
	if m == nil {
		return nil, die(failed+"pci ID '%s' does not exist", c.param("id"))
	}
	if !c.p.has("map") {
		return nil, die(failed + "missing value for required option 'map'")
	}
	m.entries = slices.Clone(c.p["map"])
	if c.p.has("description") {
		m.description = c.param("description")
	}
	c.setFlags(m)
	for _, k := range splitList(c.param("delete")) {
		switch k {
		case "description":
			m.description = ""
		default:
			delete(m.flags, k)
		}
	}
	return nil, nil
}

// deleteMapping never refuses: one that is in use, or is not there, neither.
func (c *call) deleteMapping() (any, error) {
	delete(c.s.mappings, c.param("id"))
	return nil, nil
}

// blacklist is what a listing of PCI devices leaves out unless told otherwise:
// memory controllers, bridges and processors.
const blacklist = "05;06;0b"

func (c *call) listPCI() (any, error) {
	hide := blacklist
	if _, given := c.p["pci-class-blacklist"]; given {
		hide = c.param("pci-class-blacklist")
	}
	h := c.host()
	out := []any{}
	for _, address := range slices.Sorted(maps.Keys(h.devices)) {
		d := h.devices[address]
		if slices.ContainsFunc(splitList(hide), func(class string) bool { return strings.HasPrefix(d.Class, class) }) {
			continue
		}
		if c.p.has("verbose") && !c.p.bool("verbose") {
			all := h.describe(d)
			short := map[string]any{}
			for _, k := range []string{"id", "class", "vendor", "device", "iommugroup"} {
				short[k] = all[k]
			}
			out = append(out, short)
			continue
		}
		out = append(out, h.describe(d))
	}
	return out, nil
}

// makers are the names that pci.ids has for those who build cards.
var makers = map[string]string{"1022": "Advanced Micro Devices, Inc. [AMD]", "1028": "Dell", "1043": "ASUSTeK Computer Inc.", "10de": "NVIDIA Corporation",
	"1458": "Gigabyte Technology Co., Ltd", "1462": "Micro-Star International Co., Ltd. [MSI]", "15d9": "Super Micro Computer Inc", "1af4": "Red Hat, Inc.",
	"3842": "eVGA Corp.", "8086": "Intel Corporation"}

func (h *host) describe(d *PCIDevice) map[string]any {
	vendor, device, _ := strings.Cut(d.ID, ":")
	e := map[string]any{"id": d.Address, "class": "0x" + d.Class, "vendor": "0x" + vendor, "device": "0x" + device, "iommugroup": h.group(d)}
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
	return e
}

// group is the device's IOMMU group as the kernel shows it.
func (h *host) group(d *PCIDevice) int {
	if h.NoIOMMU {
		return -1
	}
	return d.Group
}
