package names

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// Tag is the Proxmox tag of every VM that belongs to the cluster. A VM without it belongs to
// another owner, whatever its name; one with it is ours only if it also has a mark of its own,
// see package proxmox.
func Tag(s *spec.Spec) string { return TagPrefix + s.Name }

// IsMark reports whether a tag is such a mark, of any VM. No cluster's name has an underscore.
func IsMark(s *spec.Spec, tag string) bool { return strings.HasPrefix(tag, Tag(s)+"_") }

// TagPrefix is the prefix of the tags of all clusters.
const TagPrefix = "homelab-"

// Seed is the name of a seed ISO. It contains the digest of the contents, so a lookup by name
// checks the contents, and a changed input changes the name.
func Seed(s *spec.Spec, node, digest string) string {
	return file(s, node, digest, "iso")
}

// NodeSeed is the name of a node's seed ISO: with a digest of the machine's description, and
// one of the keys that may log in, which are not part of the former.
func NodeSeed(s *spec.Spec, node, digest, keys string) string {
	return fmt.Sprintf("homelab_%s_%s_%s-%s.iso", s.Name, node, digest[:12], keys[:8])
}

// file names one of our files on a Proxmox storage. Names of clusters and nodes have no
// underscore, so the parts stay distinct: a cluster "a" does not own the files of a cluster
// "a-b".
func file(s *spec.Spec, what, digest, suffix string) string {
	return fmt.Sprintf("homelab_%s_%s_%s.%s", s.Name, what, digest[:12], suffix)
}

// OwnsFile reports whether a file on a Proxmox storage belongs to this cluster.
func OwnsFile(s *spec.Spec, file string) bool {
	parts := strings.Split(file, "_")
	return len(parts) == 4 && parts[0] == "homelab" && parts[1] == s.Name
}

// OwnsBake reports whether a file is a seed for baking a template of this cluster.
func OwnsBake(s *spec.Spec, file string) bool {
	return OwnsFile(s, file) && strings.Split(file, "_")[2] == Bake
}

// Mapping is the name of a node's resource mapping.
func Mapping(s *spec.Spec, node string) string { return s.Name + "_" + node }

// DeviceMapping is the name of the resource mapping of a node's device. No node's name has an underscore.
func DeviceMapping(s *spec.Spec, node, device string) string { return Mapping(s, node) + "_" + device }

// MappingNote is the description that identifies our mappings.
func MappingNote(s *spec.Spec) string { return MappingNotePrefix + s.Name }

// MappingNotePrefix is the start of the description of every mapping of homelab, of any cluster.
const MappingNotePrefix = "made by homelab for cluster "

// MappingCluster returns the cluster that a mapping with this description is of; "" if homelab did not make it.
func MappingCluster(description string) string {
	cluster, made := strings.CutPrefix(description, MappingNotePrefix)
	if !made {
		return ""
	}
	return cluster
}

// OtherMappingCluster is MappingCluster for mappings of other clusters; "" for those of s.
func OtherMappingCluster(s *spec.Spec, description string) string {
	if cluster := MappingCluster(description); cluster != s.Name {
		return cluster
	}
	return ""
}

// Template is the name of a baked template. Each host has its own, because clones cannot cross
// hosts without shared storage.
func Template(s *spec.Spec, host, digest string) string {
	return s.Name + TemplateInfix + host + "-" + digest[:12]
}

// TemplateInfix follows the cluster's name in the names of baked templates; no node's name
// starts like this.
const TemplateInfix = "-template-"

// Image is the file name of the cloud image. Proxmox imports a disk only from a name that ends
// in its format, whatever the URL's name.
func Image(s *spec.Spec) string {
	digest := s.Image.SHA256 + s.Image.SHA512 // there is one
	if digest == "" {
		digest = cloudinit.Digest([]byte(s.Image.URL))
	}
	return file(s, "image", digest, "qcow2")
}

// VMImage is the file name of a machine's own image. It follows from the address if the checksum is not known.
func VMImage(s *spec.Spec, i spec.CloudImage) string {
	suffix := "qcow2"
	if strings.HasSuffix(i.URL, ".raw") {
		suffix = "raw"
	}
	return file(s, "image", cmp.Or(i.Sum(), cloudinit.Digest([]byte(i.URL))), suffix)
}

// Bake is the host name, and the instance ID, of the machine in which a template is baked.
const Bake = "template"

// PoolLabel is the label of a Kubernetes node with its pool in the file.
const PoolLabel = "homelab.cps-gpu.github.com/pool"

// MayBeName reports whether a VM or template of the cluster may have a name: that of a machine of the
// file, or of a template of any file.
func MayBeName(s *spec.Spec, name string) bool {
	return strings.HasPrefix(name, s.Name+TemplateInfix) ||
		slices.ContainsFunc(s.Machines(), func(n spec.Node) bool { return n.Name == name && n.OnProxmox() })
}

// BakeMAC is the MAC address of the machine that becomes the template on a host; its seed uses
// it. No node's name has a blank.
func BakeMAC(s *spec.Spec, host string) spec.MAC { return spec.StableMAC(s.Name, "template "+host) }
