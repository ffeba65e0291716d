package clusterfile

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// devicesSection completes and checks the devices of a node, besides its GPUs.
type devicesSection struct{ *resolver }

func (r devicesSection) devices(n *spec.Node) {
	if !n.OnProxmox() {
		n.Devices = nil
		return
	}
	all, usb := offer.GPUsOf(*n).Cards, 0
	for i := range n.Devices {
		d := &n.Devices[i]
		if !decode.Matches(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`, d.Name) {
			r.Wrong(d, fmt.Sprintf("%q cannot be a device's name, which is a part of its resource mapping's", d.Name), "write at most 32 lower-case letters, digits and hyphens")
		}
		if r.IsSet(&d.USB) {
			r.usb(d)
			usb++
			continue
		}
		d.PCI = r.pci(d)
		all++
		if r.IsSet(&d.Port) {
			r.Wrong(&d.Port, "a PCI device has no USB port", "remove it")
		}
	}
	if all > unit.MaxPCI && len(n.Devices) > usb {
		r.Wrong(&n.Devices, fmt.Sprintf("a VM takes at most %d PCI devices, and the node has %d with its GPUs", unit.MaxPCI, all), "spread them over more nodes")
	}
	if n.Balloon && all > 0 {
		r.Wrong(&n.Balloon, fmt.Sprintf("all memory of %s is pinned, as it has GPUs or PCI devices, and QEMU takes none back", n.Name), "remove balloon, or write balloon: false in the node")
	}
	if usb > unit.MaxUSB {
		r.Wrong(&n.Devices, fmt.Sprintf("a VM takes at most %d USB devices, and the node has %d", unit.MaxUSB, usb), "spread them over more nodes")
	}
}

// usb checks a USB device, and writes its vendor and product in lower case.
func (r devicesSection) usb(d *spec.Device) {
	id := decode.Matches(`^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$`, d.USB)
	if id {
		d.USB = strings.ToLower(d.USB)
	}
	switch {
	case r.IsSet(&d.PCI):
		r.Wrong(&d.USB, fmt.Sprintf("the device %s is of PCI and of USB", d.Name), "keep one of pci and usb")
	case !id && !decode.Matches(mappingName, d.USB):
		r.Wrong(&d.USB, fmt.Sprintf("%q names no USB device", d.USB), `write its vendor and product ("10c4:ea60", as lsusb shows them on the host), and port: where there are several, or the name of a resource mapping`)
	case !id && r.IsSet(&d.Port):
		r.Wrong(&d.Port, "the mapping says which port", "remove it")
	case d.Port != "" && !decode.Matches(`^[0-9]+-[0-9]+(\.[0-9]+)*$`, d.Port):
		r.Wrong(&d.Port, fmt.Sprintf("%q cannot be a USB port", d.Port), "write bus and port, 1-2 or 1-2.3 behind a hub, as ls /sys/bus/usb/devices shows them on the host")
	}
}

// pci returns a device's address as Proxmox writes it, its vendor and device in lower case, or the name
// of a mapping.
func (r devicesSection) pci(d *spec.Device) string {
	if at, err := unit.ParsePCIAddress(d.PCI); err == nil {
		return at.String()
	}
	switch {
	case d.PCI == "":
		r.Wrong(d, fmt.Sprintf("nothing says which device %s is", d.Name), `write pci: and its address, e.g. pci: "0000:03:00.0" as lspci -D shows it on the host, or usb: and its vendor and product, usb: "10c4:ea60" as lsusb shows them`)
	case decode.Matches(`^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$`, d.PCI):
		return strings.ToLower(d.PCI)
	case !decode.Matches(mappingName, d.PCI):
		r.Wrong(&d.PCI, fmt.Sprintf("%q names no PCI device", d.PCI),
			`write its address ("0000:03:00.0"), its vendor and device ("1ac1:089a", as lspci -nn shows them on the host), or the name of a resource mapping`)
	}
	return d.PCI
}

// onePerHost checks that no address and no USB device is given to two nodes of a host, or twice to one.
func (r devicesSection) onePerHost() {
	type place struct{ host, kind, device string }
	seen, ports := map[place]any{}, map[place]any{}
	for _, n := range r.machines() {
		for i := range n.Devices {
			d := &n.Devices[i]
			_, err := unit.ParsePCIAddress(d.PCI)
			key, at := place{n.Host, "PCI", d.PCI}, &d.PCI
			if d.USB != "" {
				key, at = place{n.Host, "USB", d.USB}, &d.USB
			}
			what := fmt.Sprintf("%s device %s on %s is given twice", key.kind, key.device, key.host)
			switch {
			case d.USB != "" && d.Port != "":
				unique(r.resolver, ports, place{n.Host, "port", d.Port}, &d.Port, fmt.Sprintf("USB port %s on %s is given twice", d.Port, n.Host), "give each device to one node, once")
			case d.USB != "":
				unique(r.resolver, seen, key, at, what, "write port: for each of them")
			case err == nil:
				unique(r.resolver, seen, key, at, what, "give each device to one node, once")
			}
		}
	}
}
