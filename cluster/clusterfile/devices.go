package clusterfile

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/proxmox/unit"
)

// devicesSection completes and checks the devices of a node, besides its GPUs.
type devicesSection struct{ *resolver }

func (r devicesSection) devices(n *spec.Node) {
	if n.External {
		n.Devices = nil
		return
	}
	if all := offer.GPUsOf(*n).Cards + len(n.Devices); len(n.Devices) > 0 && all > maxGPUs {
		r.Wrong(&n.Devices, fmt.Sprintf("a VM takes at most %d PCI devices, and the node has %d with its GPUs", maxGPUs, all), "spread them over more nodes")
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		if !matches(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`, d.Name) {
			r.Wrong(d, fmt.Sprintf("%q cannot be a device's name, which is a part of its resource mapping's", d.Name), "write at most 32 lower-case letters, digits and hyphens")
		}
		d.PCI = r.pci(d)
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
		r.Wrong(d, fmt.Sprintf("nothing says which device %s is", d.Name), `write pci: and its address, e.g. pci: "0000:03:00.0" as lspci -D shows it on the host`)
	case matches(`^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$`, d.PCI):
		return strings.ToLower(d.PCI)
	case !matches(mappingName, d.PCI):
		r.Wrong(&d.PCI, fmt.Sprintf("%q names no PCI device", d.PCI),
			`write its address ("0000:03:00.0"), its vendor and device ("1ac1:089a", as lspci -nn shows them on the host), or the name of a resource mapping`)
	}
	return d.PCI
}

// onePerHost checks that no address is given to two nodes of a host, or twice to one.
func (r devicesSection) onePerHost() {
	type place struct{ host, pci string }
	seen := map[place]any{}
	for _, n := range r.nodes {
		for i := range n.Devices {
			d := &n.Devices[i]
			if _, err := unit.ParsePCIAddress(d.PCI); err == nil {
				unique(r.resolver, seen, place{n.Host, d.PCI}, &d.PCI, fmt.Sprintf("PCI device %s on %s is given twice", d.PCI, n.Host), "give each device to one node, once")
			}
		}
	}
}
