package clusterfile

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distro"
)

// labSection completes and checks lab.
type labSection struct{ *resolver }

// labImage is the URL at which the lab serves its own Debian image. The name is reserved (RFC
// 6761, section 6.4).
const labImage = "https://lab.invalid/debian-13.qcow2"

// labGuests reads the kind of the lab's VMs. Its checks need the nodes, and come later.
func (r labSection) labGuests() {
	raw := &r.spec.LabGuests
	if !r.IsSet(raw) {
		return
	}
	l := *raw
	l.Image = r.Existing(&raw.Image, raw.Image, true)
	l.Place = r.Location(&raw.Guests)
	// An air-gapped K3s suggests that there is no internet.
	l.Internet = l.Internet.Or(r.spec.K3s.AirgapDir == "")
	*raw = spec.LabGuests{}
	switch {
	case !r.spec.IsLab():
		r.Wrong(raw, "lab: says what the VMs of the embedded lab are, and this file is for another Proxmox VE", "remove it, or write endpoint: lab in proxmox")
		return
	case l.QEMU() && r.IsSet(&raw.ControlPlane):
		r.Wrong(&raw.ControlPlane, "this is about simulated VMs, and those of this file are real, with a real K3s in them", "remove it, or guests: qemu")
	case !l.QEMU():
		raw.ControlPlane = l.ControlPlane
		for _, at := range []any{&raw.Internet, &raw.Image} {
			if r.IsSet(at) {
				r.Wrong(at, "this is about real VMs, and those of this file are simulated", "write guests: qemu beside it, or remove it")
			}
		}
		return
	}
	for _, name := range labImageFiles() {
		if _, err := os.Stat(filepath.Join(l.Image, name)); l.Image != "" && err != nil {
			r.Wrong(&raw.Image, fmt.Sprintf("%s has no %s", l.Image, name), "name a folder with "+strings.Join(labImageFiles(), ", ")+", as the lab keeps them in the user's cache")
		}
	}
	*raw = l
}

// labImageFiles are the files of an image for real guests of the lab.
func labImageFiles() []string { return []string{"disk.raw", "vmlinuz", "initrd"} }

// labHasImage sets the lab's image as that of the nodes.
func (r labSection) labHasImage(raw *spec.Image) {
	const cure = "remove it; the image is the lab's own Debian 13, or that of lab.image"
	for _, at := range []any{&raw.URL, &raw.SHA256, &raw.SHA512, &raw.Template} {
		if r.IsSet(at) {
			r.Wrong(at, "real VMs of the lab boot only the lab's own image", cure)
		}
	}
	debian := distro.ByName("debian-13")
	if r.IsSet(&raw.Distribution) && raw.Distribution != debian.Name {
		r.Wrong(&raw.Distribution, fmt.Sprintf("real VMs of the lab are %s, and not %s", debian.Title, raw.Distribution), "write "+debian.Name+", or nothing")
	}
	raw.Distribution, raw.Release = debian.Name, debian.Release
	raw.URL, raw.SHA256, raw.SHA512 = labImage, "", ""
}

// realGuests checks what real VMs of the lab do not support.
func (r labSection) realGuests() {
	l := r.spec.LabGuests
	if !l.QEMU() {
		return
	}
	var first netip.Prefix
	for _, n := range r.machines() {
		p := n.Network.Prefix
		if !first.IsValid() {
			first = p.Masked()
		}
		switch {
		case n.Boot != nil:
			r.Wrong(n.Node, n.Name+" has an image of its own, and real VMs of the lab boot only the lab's", "remove it, or lab.guests")
		case n.External:
			r.Wrong(&n.SSH, n.Name+" is an external machine, which the lab's network does not reach", "remove it, or make it a VM")
		case n.HasGPUs():
			r.Wrong(&n.GPUs, n.Name+" has GPUs, and real VMs of the lab cannot have simulated cards", "remove gpus, or lab.guests")
		case slices.ContainsFunc(n.Networks, func(c spec.Card) bool { return c.DHCP }):
			r.Wrong(&n.Networks, "the networks of the lab's real VMs have no DHCP server", "give the cards addresses")
		case n.DHCP():
			r.Wrong(&n.Network.DHCP, "the network of the lab's real VMs has no DHCP server", "give the nodes addresses")
		case !p.Addr().Is4() || !n.Network.Gateway.IsValid():
			r.Wrong(&r.spec.Network, "the lab's real VMs have an IPv4 network with a gateway", "write e.g. network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}")
		case first != p.Masked():
			r.Wrong(&n.Network.Prefix, fmt.Sprintf("%s is in %s, and other nodes in %s: the lab's real VMs have one network", n.Name, p, first), "use one prefix")
		}
	}
	if l.Internet.IsOn() {
		return
	}
	if r.spec.K3s.AirgapDir == "" {
		r.Wrong(&r.spec.LabGuests.Internet, "without internet the nodes cannot download K3s", "write airgap: FOLDER in k3s, or internet: true")
	}
}
