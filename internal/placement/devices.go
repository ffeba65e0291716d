package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// DeviceShare is what a node has of its host, besides GPUs.
type DeviceShare struct {
	Mappings []pci.Mapping        // in the order of the file, without those that the file names
	Why      []string             // of each mapping: which device
	USB      []proxmox.USBMapping // the same of USB devices
	Errs     []error              // why the node cannot have devices of the file
}

// Devices assigns the devices of a host to the nodes on it, by node: all at once, so that concurrent
// nodes and later runs get the same. ledger has all claims, those of our own VMs too, and uses is what
// the host uses itself.
func Devices(s *spec.Spec, host string, ledger *pci.Ledger, uses []pci.Use, usb USB) map[string]DeviceShare {
	b := &deviceBook{spec: s, host: host, ledger: ledger, uses: uses, usb: usb, given: map[string]pci.Device{}}
	var nodes []spec.Node
	for _, n := range s.Machines() {
		if n.OnProxmox() && n.Host == host && len(n.Devices) > 0 {
			nodes = append(nodes, n)
		}
	}
	// First what the file names, then what nodes have, then what is free.
	failed := map[string]error{}
	for _, choose := range []func(spec.Node, spec.Device) (pci.Device, error){b.atAddress, b.keptDevice, b.free} {
		for _, n := range nodes {
			for _, d := range n.Devices {
				id := names.DeviceMapping(s, n.Name, d.Name)
				if d.USB != "" || b.given[id].Functions != nil || failed[id] != nil {
					continue
				}
				found, err := choose(n, d)
				if failed[id] = err; found.Functions != nil {
					b.given[id] = found
				}
			}
		}
	}
	out := map[string]DeviceShare{}
	for _, n := range nodes {
		var share DeviceShare
		for _, d := range n.Devices {
			id := names.DeviceMapping(s, n.Name, d.Name)
			given, has := b.given[id]
			err := failed[id]
			switch {
			case err != nil:
			case d.USB != "" && d.NamedMapping() == "":
				var m proxmox.USBMapping
				m, err = b.usbDevice(n, d)
				share.USB = append(share.USB, m)
			case d.USB != "":
				err = b.namedUSB(n, d)
			case !has:
				err = b.checkNamed(n, d)
			default:
				err = b.problem(n, d, given)
				share.Mappings = append(share.Mappings, pci.Mapping{ID: id, Description: names.MappingNote(s), Devices: []pci.MappedDevice{given.MappedDevice()}})
				share.Why = append(share.Why, given.String())
			}
			if err != nil {
				share.Errs = append(share.Errs, err)
			}
		}
		out[n.Name] = share
	}
	return out
}

// deviceBook is the state of a host's devices during the assignment.
type deviceBook struct {
	spec   *spec.Spec
	host   string
	ledger *pci.Ledger
	uses   []pci.Use
	usb    USB
	given  map[string]pci.Device // by mapping
}

// fail is an error about a device of a node, which only the file or a person can change.
func fail(n spec.Node, d spec.Device, cure, format string, args ...any) error {
	return converge.Permanent(fmt.Errorf("devices.%s of %s: %s\n  %s", d.Name, n.Name, fmt.Sprintf(format, args...), cure))
}

// missing is the error of a mapping that the file names and that does not exist; all are those that do.
func missing(n spec.Node, d spec.Device, all []string, or, kind, what string) error {
	return fail(n, d, "name an existing one, or the device by "+or, "there is no resource mapping %s, or the token may not see it (Mapping.Use on /mapping/%s/%s); there is %s",
		what, kind, d.NamedMapping(), cmp.Or(strings.Join(all, ", "), "none"))
}

// atAddress finds the device that the file names by its address.
func (b *deviceBook) atAddress(n spec.Node, d spec.Device) (pci.Device, error) {
	at, err := proxmox.ParsePCIAddress(d.PCI)
	if err != nil {
		return pci.Device{}, nil //nolint:nilerr // it is no address
	}
	found, there := b.ledger.Device(b.host, at)
	if !there {
		return found, fail(n, d, fmt.Sprintf("lspci -Dnn on %s lists what is there", b.host), "%s has no PCI device %s", b.host, at)
	}
	return found, nil
}

// keptDevice is the device that a node's mapping has, if it is of the kind that the file names.
func (b *deviceBook) keptDevice(n spec.Node, d spec.Device) (pci.Device, error) {
	for _, found := range b.ofKind(d) {
		if b.isKept(n, d, found) && b.problem(n, d, found) == nil {
			return found, nil
		}
	}
	return pci.Device{}, nil
}

// free is the first device of a kind that the node can have.
func (b *deviceBook) free(n spec.Node, d spec.Device) (pci.Device, error) {
	all := b.ofKind(d)
	var why []error
	for _, found := range all {
		err := b.problem(n, d, found)
		if err == nil {
			return found, nil
		}
		why = append(why, err)
	}
	switch {
	case len(why) == 1:
		return pci.Device{}, why[0]
	case len(why) > 1:
		return pci.Device{}, converge.Permanent(errors.Join(why...))
	case d.NamedMapping() == "":
		return pci.Device{}, fail(n, d, fmt.Sprintf("lspci -Dnn on %s lists what is there", b.host), "%s has no PCI device %s", b.host, d.PCI)
	}
	return pci.Device{}, nil
}

// ofKind lists the devices of a vendor and device that the file names.
func (b *deviceBook) ofKind(d spec.Device) []pci.Device {
	if d.NamedMapping() != "" {
		return nil
	}
	return b.ledger.DevicesOfKind(b.host, d.PCI)
}

// isKept reports whether a node's own mapping has the device, and still fits it.
func (b *deviceBook) isKept(n spec.Node, d spec.Device, found pci.Device) bool {
	m := Mapping(b.ledger.Mappings, names.DeviceMapping(b.spec, n.Name, d.Name))
	return m != nil && m.Description == names.MappingNote(b.spec) && len(m.Problems) == 0 && len(m.Devices) == 1 && m.Devices[0] == found.MappedDevice()
}

func overlap(a, b pci.Device) bool {
	return slices.ContainsFunc(b.Functions, func(f pci.Function) bool { return a.Overlaps(f.Address) })
}

// problem says why a device must not go to a node.
func (b *deviceBook) problem(n spec.Node, d spec.Device, found pci.Device) error {
	id := names.DeviceMapping(b.spec, n.Name, d.Name)
	if m := Mapping(b.ledger.Mappings, id); m != nil && m.Description != names.MappingNote(b.spec) {
		return fail(n, d, fmt.Sprintf("write pci: %s to use it unchanged, or remove it", id), "homelab did not create the resource mapping %s (its description is %q)", id, m.Description)
	}
	for other, given := range b.given {
		if other != id && overlap(found, given) {
			return fail(n, d, "give each device to one node, once", "%s goes to another device of the file, by the mapping %s", found, other)
		}
	}
	if card, is := b.ledger.Card(b.host, found.Functions[0].Address); is {
		return fail(n, d, "write gpus: for it", "%s is a part of the NVIDIA GPU at %s (%s)", found, card.Address, card.Model)
	}
	var with []proxmox.PCIAddress
	for _, other := range n.Devices {
		if g, has := b.given[names.DeviceMapping(b.spec, n.Name, other.Name)]; has {
			with = append(with, g.Address)
		}
	}
	if problem, cure := found.Problem(with); problem != "" {
		return fail(n, d, cure, "%s %s", found, problem)
	}
	if cl, taken := b.ledger.TakenBy(found, func(cl pci.Claim) bool { return b.ownClaim(n, cl) }); taken {
		return fail(n, d, cl.ReleaseCommand()+"; a node of this cluster releases it in a run without it in the file", "%s belongs to %s, %s", found, cl, cl.Description())
	}
	for _, m := range b.ledger.Mappings {
		name := names.OtherMappingCluster(b.spec, m.Description)
		if name != "" && slices.ContainsFunc(m.Devices, func(o pci.MappedDevice) bool { return o.Host == b.host && found.Overlaps(o.Address) }) {
			return fail(n, d, "remove it from that cluster's file and run cluster:up there", "%s belongs to cluster %s, by its mapping %s", found, name, m.ID)
		}
	}
	if b.isKept(n, d, found) {
		return nil // it was free when it was mapped; the host shows its disk as its own while the VM is off
	}
	return b.hostsOwn(n, d, found, false)
}

// ownClaim reports whether a claim is that of the node's own machine.
func (b *deviceBook) ownClaim(n spec.Node, cl pci.Claim) bool {
	return cl.Name == n.Name && cl.Host == b.host && (n.Adopt || slices.Contains(cl.Tags, names.Tag(b.spec)))
}

// hostsOwn refuses what the host uses itself, or may use: it would lose its disk or its network when
// the VM starts. A mapping that somebody made says that VMs may have the device, unless the host shows
// that it has it itself.
func (b *deviceBook) hostsOwn(n spec.Node, d spec.Device, found pci.Device, mapped bool) error {
	for _, u := range b.uses {
		may, sure := u.MayBe(found)
		switch {
		case sure:
			return fail(n, d, "name another device", "%s is %s, which %s uses itself", found, u.What, b.host)
		case may && !mapped:
			f := found.MappedDevice()
			return fail(n, d, fmt.Sprintf("look on %s: ls -l /sys/class/block /sys/class/net | grep %s; if it is nothing that the host uses, make a mapping there and write its name, pci: NAME:\n"+
				"  pvesh create /cluster/mapping/pci --id NAME --map %s", b.host, found.Address, printable.Word(f.Line())),
				"%s may be %s, which %s uses itself: Proxmox does not show on which device that is", found, u.What, b.host)
		}
	}
	return nil
}

// released reports whether a claim is that of the node's own machine, by what the file no longer gives it.
func (b *deviceBook) released(n spec.Node, cl pci.Claim) bool {
	_, given := b.given[cl.Mapping]
	return b.ownClaim(n, cl) && !given && !slices.ContainsFunc(n.Devices, func(d spec.Device) bool { return d.USB == "" && d.PCI == cl.Mapping })
}

// checkNamed checks a device that the file names by an existing mapping.
func (b *deviceBook) checkNamed(n spec.Node, d spec.Device) error {
	m := Mapping(b.ledger.Mappings, d.PCI)
	if m == nil {
		var all []string
		for _, m := range b.ledger.Mappings {
			all = append(all, m.ID)
		}
		return missing(n, d, all, "its address", "pci", d.PCI)
	}
	if len(m.Problems) > 0 {
		return fail(n, d, "recreate it from what the host reports: Datacenter, Resource Mappings", "mapping %s does not fit the hardware of %s: %s", m.ID, b.host, strings.Join(m.Problems, "; "))
	}
	for _, choice := range b.ledger.MappingChoices(b.host, m.ID) {
		for _, at := range choice {
			if card, is := b.ledger.Card(b.host, at); is {
				return fail(n, d, fmt.Sprintf("write gpus: {mapping: [%s]}", m.ID), "%s of mapping %s is a part of the NVIDIA GPU at %s (%s)", at, m.ID, card.Address, card.Model)
			}
			if found, there := b.ledger.Device(b.host, at); there {
				if err := b.hostsOwn(n, d, found, true); err != nil {
					return err
				}
			}
		}
	}
	wanted := 0 // by nodes of this file
	mine := func(cl pci.Claim) bool {
		return slices.ContainsFunc(b.spec.Machines(), func(o spec.Node) bool {
			return cl.Mapping == m.ID && o.Host == b.host && b.ownClaim(o, cl) && slices.ContainsFunc(o.Devices, func(d spec.Device) bool { return d.PCI == m.ID })
		})
	}
	for _, o := range b.spec.Machines() {
		for _, other := range o.Devices {
			if o.Host == b.host && other.PCI == m.ID {
				wanted++
			}
		}
	}
	offered, claims := b.ledger.MappingClaims(b.host, m.ID)
	claims = slices.DeleteFunc(claims, func(cl pci.Claim) bool { return mine(cl) || b.released(n, cl) })
	if wanted+len(claims) > offered {
		who := fmt.Sprintf("%d of this file", wanted)
		for _, cl := range claims {
			who += fmt.Sprintf("; %s, %s", cl, cl.Description())
		}
		return fail(n, d, "give the mapping more devices, or remove it from one of them", "mapping %s has %d of %s's devices, and more want one: %s", m.ID, offered, b.host, who)
	}
	return nil
}
