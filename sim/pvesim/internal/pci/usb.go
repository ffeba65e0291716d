package pci

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// USBRegister is where the mappings of USB devices are.
func USBRegister() world.Register {
	return world.Register{Path: "/cluster/mapping/usb", ID: "id", Kind: "hardware mapping", ACL: "/mapping/usb/"}
}

// ListUSB lists the USB devices of a node (pve-common, PVE/SysFSTools.pm, scan_usb).
func ListUSB(c *world.Call) (any, error) {
	out := []any{}
	for i, d := range c.Host().USB {
		vendor, product, _ := strings.Cut(d.ID, ":")
		bus, path, _ := strings.Cut(d.Port, "-")
		e := map[string]any{"busnum": schema.Atoi(bus), "devnum": i + 2, "level": strings.Count(path, ".") + 1, "class": 0, "speed": "12", "usbpath": path,
			"port": schema.Atoi(path[strings.LastIndexByte(path, '.')+1:]) - 1, "vendid": vendor, "prodid": product}
		if d.Product != "" {
			e["product"] = d.Product
		}
		out = append(out, e)
	}
	return out, nil
}

// ValidUSB holds an entry of a mapping against its host (PVE/Mapping/USB.pm, assert_valid).
func ValidUSB(h *world.Host, id string, entry map[string]string) error {
	var devices []model.USBDevice
	if h != nil {
		devices = h.USB
	}
	path := entry["path"]
	i := slices.IndexFunc(devices, func(d model.USBDevice) bool {
		return path != "" && d.Port == path || path == "" && d.ID == entry["id"]
	})
	switch {
	case i < 0 && path != "":
		return answer.Die("usb device '%s' not found", path)
	case i < 0:
		return answer.Die("usb device '%s' not found", entry["id"])
	case devices[i].ID != entry["id"]:
		return answer.Die("'id' does not match for '%s' (%s != %s)", id, devices[i].ID, entry["id"])
	}
	return nil
}

// usbLimit is the number of usbN from which on machines must be new ($OLD_MAX_USB).
const usbLimit = 5

// PlugUSB says why QEMU does not get the device of a usbN (PVE/QemuServer/USB.pm, parse_usb_device).
func PlugUSB(s *world.State, v *world.VM, key, value string) error {
	d := s.Props(key, value)
	id := d["mapping"]
	if id == "" || d["host"] != "" {
		return nil
	}
	var found []map[string]string
	if e := s.Entries(USBRegister())[id]; e != nil {
		for _, line := range e["map"] {
			props, err := schema.ParseProps(s.Schema.Methods["POST "+USBRegister().Path].Parameters["map"].Items.Format.Keys, line)
			if err == nil && props["node"] == v.Node {
				found = append(found, props)
			}
		}
	}
	switch {
	case len(found) == 0:
		return answer.Die("USB device mapping not found for '%s'", id)
	case len(found) > 1:
		return answer.Die("More than one USB mapping per host not supported")
	}
	if err := ValidUSB(s.Hosts[v.Node], id, found[0]); err != nil {
		return answer.Die("USB Mapping invalid (hardware probably changed): %s\n", err)
	}
	return nil
}

// PlugAllUSB is PlugUSB for all that a VM has at its start.
func PlugAllUSB(s *world.State, v *world.VM) error {
	for i := range 14 {
		key := "usb" + strconv.Itoa(i)
		if v.Conf[key] == "" {
			continue
		}
		if i >= usbLimit && v.Conf["ostype"] != "l26" && !strings.HasPrefix(v.Conf["ostype"], "win1") && v.Conf["ostype"] != "win8" {
			return answer.Die("using %s is only possible with machine type >= 7.1 and ostype l26 or windows > 7", key)
		}
		if err := PlugUSB(s, v, key, v.Conf[key]); err != nil {
			return err
		}
	}
	return nil
}
