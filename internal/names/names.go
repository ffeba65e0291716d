package names

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/spec"
)

// Tag is the Proxmox tag of every VM that belongs to the cluster. A VM without it
// is somebody else's, whatever its name; one with it is ours only if it has a mark of its
// own as well, see package proxmox.
func Tag(s *spec.Spec) string { return TagPrefix + s.Name }

// IsMark reports whether a tag is such a mark, of whichever VM. No cluster's name has an
// underscore in it.
func IsMark(s *spec.Spec, tag string) bool { return strings.HasPrefix(tag, Tag(s)+"_") }

// TagPrefix is what the tags of all clusters begin with.
const TagPrefix = "homelab-"

// Seed is the name of a seed ISO. The digest of its content is part of
// it: "is it there?" is a lookup, and a changed input is a changed name.
func Seed(s *spec.Spec, node, digest string) string {
	return file(s, node, digest, "iso")
}

// NodeSeed is the name of a node's seed ISO: the digest of what the machine is to be,
// and one of the keys that may log in, which are no part of that.
func NodeSeed(s *spec.Spec, node, digest, keys string) string {
	return fmt.Sprintf("homelab_%s_%s_%s-%s.iso", s.Name, node, digest[:12], keys[:8])
}

// file names a file of ours on a Proxmox storage. No cluster's or node's name has
// an underscore in it, so the parts cannot run together: a cluster called "a" does
// not own the files of one called "a-b".
func file(s *spec.Spec, what, digest, suffix string) string {
	return fmt.Sprintf("homelab_%s_%s_%s.%s", s.Name, what, digest[:12], suffix)
}

// OwnsFile reports whether a file on a Proxmox storage was put there for this
// cluster.
func OwnsFile(s *spec.Spec, file string) bool {
	parts := strings.Split(file, "_")
	return len(parts) == 4 && parts[0] == "homelab" && parts[1] == s.Name
}

// OwnsBake reports whether a file is a seed with which a template of this cluster is baked.
func OwnsBake(s *spec.Spec, file string) bool {
	return OwnsFile(s, file) && strings.Split(file, "_")[2] == Bake
}

// Mapping is the name of a node's resource mapping.
func Mapping(s *spec.Spec, node string) string { return s.Name + "_" + node }

// MappingNote is the description by which a mapping is known to be ours.
func MappingNote(s *spec.Spec) string { return MappingNotePrefix + s.Name }

// MappingNotePrefix begins the description of every mapping that we make, for whichever cluster.
const MappingNotePrefix = "made by homelab for cluster "

// Template is the name of a baked template. Each host has its own, since
// clones do not cross hosts without shared storage.
func Template(s *spec.Spec, host, digest string) string {
	return s.Name + TemplateInfix + host + "-" + digest[:12]
}

// TemplateInfix is what the names of baked templates have behind the cluster's; no node's
// name begins so.
const TemplateInfix = "-template-"

// Image is the name under which the cloud image is kept. Proxmox imports a
// disk only from a name that ends in its format, whatever the URL calls it.
func Image(s *spec.Spec) string {
	digest := s.Image.SHA256 + s.Image.SHA512 // there is one
	if digest == "" {
		digest = cloudinit.Digest([]byte(s.Image.URL))
	}
	return file(s, "image", digest, "qcow2")
}

// Bake is the host name, and the instance ID, of the machine in which a template is baked.
const Bake = "template"

// PoolLabel is the label of a Kubernetes node that says to which pool of the file it belongs.
const PoolLabel = "homelab.cps-gpu.github.com/pool"

// MACs returns how machines look that earlier versions have made, which have no mark: the
// address of the interface that the file, or the cluster's name, gives a machine, "" for one
// that neither knows. So no backup of a machine that was removed long ago, restored to
// look at it, is removed once more.
func MACs(s *spec.Spec) func(name string) string {
	addresses := map[string]string{}
	for _, n := range s.Machines() {
		if !n.External {
			addresses[n.Name] = n.MAC.String()
		}
	}
	return func(name string) string {
		// A template of any file: clones have other addresses, and nobody works in it.
		if host, baked := bakedFor(s, name); baked {
			return BakeMAC(s, host).String()
		}
		return addresses[name]
	}
}

// bakedFor returns the host in the name of a baked template.
func bakedFor(s *spec.Spec, name string) (host string, baked bool) {
	tail, baked := strings.CutPrefix(name, s.Name+TemplateInfix)
	at := strings.LastIndex(tail, "-")
	return tail[:max(at, 0)], baked && at > 0
}

// BakeMAC is the address of the interface of the machine that becomes the template on a
// host, by which its seed finds it. No node's name has a blank in it.
func BakeMAC(s *spec.Spec, host string) spec.MAC { return spec.StableMAC(s.Name, "template "+host) }
