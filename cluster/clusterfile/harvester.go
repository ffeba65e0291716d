package clusterfile

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// harvesterSection completes and checks harvester, and what a file says of machines that are made there.
type harvesterSection struct{ *resolver }

func (r harvesterSection) harvester() {
	raw := &r.spec.Harvester
	if !r.IsSet(raw) {
		*raw = spec.Harvester{} // its defaults
		return
	}
	if r.IsSet(&r.spec.Proxmox) {
		r.Wrong(raw, "the machines would be made on Harvester and on Proxmox VE", "keep one of both sections; a file is for one of them")
	}
	if raw.Kubeconfig == "" {
		r.Wrong(&raw.Kubeconfig, "harvester has no kubeconfig", "write kubeconfig: and the file that the page Support of its web interface makes")
	}
	raw.Kubeconfig = r.Existing(&raw.Kubeconfig, raw.Kubeconfig, false)
	if !decode.DNSLabel.MatchString(raw.Namespace) {
		r.Wrong(&raw.Namespace, fmt.Sprintf("%q cannot be a namespace", raw.Namespace), "write the name of an existing one, e.g. default")
	}
	if len(r.spec.VMs) > 0 {
		r.Wrong(&r.spec.VMs, "on Harvester homelab makes nodes alone", "remove vms, and make them in its web interface")
	}
}

// image checks that Harvester can compare the image with its checksum.
func (r harvesterSection) image() {
	img := &r.spec.Image
	if !r.spec.HasHarvester() {
		return
	}
	r.only(img, "image", "url", "sha512", "distribution", "template")
	switch {
	case img.Template != "":
		if !decode.Matches(nameIn, img.Template) {
			r.Wrong(&img.Template, fmt.Sprintf("%q cannot be an image of Harvester", img.Template), "write NAMESPACE/NAME, as kubectl get virtualmachineimages -A shows them, e.g. default/image-x7k2p")
		}
	case img.SHA512 == "":
		r.Wrong(img, "Harvester compares images with SHA-512 alone, and the checksum of this one is another", "write image: debian-13; or template: NAMESPACE/NAME of an image that Harvester has")
	}
}

// nameIn is the name of an object, with its namespace if that is another.
const nameIn = `^([a-z0-9]([a-z0-9-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`

// node completes and checks a machine that is made there.
func (r harvesterSection) node(n *spec.Node) {
	n.OnHarvester = true
	n.Host = "" // Harvester chooses
	r.only(n, "a node", "pool", "address", "address6", "mac", "external", "privateKey", "jump", "sudoPassword", "role", "cores", "memory",
		"description", "storage", "disks", "network", "networks", "gpus", "labels", "taints", "tpm")
	n.Hugepages, n.Affinity, n.NUMANodes = "", "", nil // which needs no second refusal
	r.only(&n.Network, "a network", "bridge", "prefix", "gateway", "dns", "search", "prefix6", "gateway6", "mtu")
	r.only(&n.GPUs, "gpus", "count", "model", "sharing")
	for i := range n.Disks {
		r.only(&n.Disks[i], "a disk", "storage", "size", "role", "fs", "mount")
	}
	for i := range n.Networks {
		r.only(&n.Networks[i], "a network card", "bridge", "mtu", "prefix", "address", "addresses", "dhcp", "routes", "mac")
	}
	if !r.IsSet(&n.Network.Bridge) {
		r.Wrong(&n.Network.Bridge, fmt.Sprintf("the network of node %s is not named", n.Name), "write network: {bridge: NAMESPACE/NAME} with a VM network of Harvester's, e.g. default/vlan10")
	}
}

// only refuses keys of a section, except for those that Harvester has too.
func (r harvesterSection) only(section any, what string, keys ...string) {
	for _, key := range decode.Keys(reflect.TypeOf(section).Elem()) {
		if at := decode.FieldPlace(section, key); r.IsSet(at) && !slices.Contains(keys, key) {
			r.Wrong(at, fmt.Sprintf("%s is a setting of Proxmox VE, which does not exist for %s on Harvester", key, what), "remove "+key)
		}
	}
}
