package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// USB is what is known of the USB devices of a host: the mappings, compared with what is plugged in, and
// the VMs that have them. What is plugged in Proxmox shows only to those who may change the host.
type USB struct {
	Mappings []proxmox.USBMappingState
	Claims   []proxmox.USBClaim
}

// Mapping returns the mapping with an ID, or nil.
func (u USB) Mapping(id string) *proxmox.USBMappingState {
	for i := range u.Mappings {
		if u.Mappings[i].ID == id {
			return &u.Mappings[i]
		}
	}
	return nil
}

// usbDevice returns the mapping of a USB device of a node, and says why the node must not have it.
func (b *deviceBook) usbDevice(n spec.Node, d spec.Device) (proxmox.USBMapping, error) {
	m := proxmox.USBMapping{
		ID: names.DeviceMapping(b.spec, n.Name, d.Name), Description: names.MappingNote(b.spec), Host: b.host, Device: proxmox.USBDevice{ID: d.USB, Port: d.Port},
	}
	have := b.usb.Mapping(m.ID)
	if have != nil && have.Description != m.Description {
		return m, fail(n, d, fmt.Sprintf("write usb: %s to use it unchanged, or remove it", m.ID), "homelab did not create the resource mapping %s (its description is %q)", m.ID, have.Description)
	}
	if err := b.usbTaken(n, d, m.Device); err != nil {
		return m, err
	}
	for _, other := range b.usb.Mappings {
		name := names.OtherMappingCluster(b.spec, other.Description)
		if name != "" && slices.ContainsFunc(other.Devices[b.host], m.Device.MayBe) {
			return m, fail(n, d, "remove it from that cluster's file and run cluster:up there", "USB device %s belongs to cluster %s, by its mapping %s", m.Device, name, other.ID)
		}
	}
	if m.Diff(have).Empty() {
		return m, b.usbFits(n, d, have)
	}
	for _, u := range b.uses {
		if slices.Contains(u.Classes, "0c03") {
			return m, fail(n, d, fmt.Sprintf("look on %s: lsusb -t; if it is another device, make a mapping there and write its name, usb: NAME:\n"+
				"  pvesh create /cluster/mapping/usb --id NAME --map node=%s,id=%s", b.host, printable.Word(b.host), d.USB),
				"%s may be %s, which %s uses itself: Proxmox does not show which USB device that is", m.Device, u.What, b.host)
		}
	}
	return m, nil
}

// usbTaken returns an error if another VM has a USB device, running or not.
func (b *deviceBook) usbTaken(n spec.Node, d spec.Device, device proxmox.USBDevice) error {
	for _, cl := range b.usb.Claims {
		switch {
		case b.ownClaim(n, cl.Claim) || !device.MayBe(cl.Device):
		case cl.Device.ID == "" && device.Port == "":
			return fail(n, d, "write port: and the port that it is in", "USB device %s may be that of %s, which has the one in %s, %s", device, cl, cl.Device, cl.Description())
		default:
			return fail(n, d, cl.ReleaseCommand()+", or write port: for each; a node of this cluster releases it in a run without it in the file", "USB device %s belongs to %s, %s", device, cl, cl.Description())
		}
	}
	return nil
}

// usbFits returns an error if the device of a mapping is not plugged in: Proxmox starts no VM with it.
func (b *deviceBook) usbFits(n spec.Node, d spec.Device, m *proxmox.USBMappingState) error {
	if len(m.Problems) == 0 {
		return nil
	}
	return fail(n, d, fmt.Sprintf("plug it in (lsusb on %s lists what is there), or remove it from the file: the machine does not start without it", b.host),
		"mapping %s does not fit %s: %s", m.ID, b.host, strings.Join(m.Problems, "; "))
}

// namedUSB checks a USB device that the file names by an existing mapping.
func (b *deviceBook) namedUSB(n spec.Node, d spec.Device) error {
	m := b.usb.Mapping(d.USB)
	if m == nil {
		var all []string
		for _, m := range b.usb.Mappings {
			all = append(all, m.ID)
		}
		return missing(n, d, all, "its vendor and product", "usb", d.USB+" of USB devices")
	}
	if count := len(m.Devices[b.host]); count != 1 {
		return fail(n, d, "give it one: Datacenter, Resource Mappings", "mapping %s has %d devices on %s, and Proxmox starts a VM only with one", m.ID, count, b.host)
	}
	if err := b.usbFits(n, d, m); err != nil {
		return err
	}
	return b.usbTaken(n, d, m.Devices[b.host][0])
}
