package cluster

import (
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
)

// tag is the Proxmox tag of every VM that belongs to the cluster. A VM without it
// is somebody else's, whatever its name; one with it is ours only if it has a mark of its
// own as well, see package proxmox.
func (s *Spec) tag() string { return tagPrefix + s.Name }

// ownsMark reports whether a tag is such a mark, of whichever VM. No cluster's name has an
// underscore in it.
func (s *Spec) ownsMark(tag string) bool { return strings.HasPrefix(tag, s.tag()+"_") }

// tagPrefix is what the tags of all clusters begin with.
const tagPrefix = "homelab-"

// seedFile is the name of a seed ISO. The digest of its content is part of
// it: "is it there?" is a lookup, and a changed input is a changed name.
func (s *Spec) seedFile(node, digest string) string {
	return s.file(node, digest, "iso")
}

// nodeSeedFile is the name of a node's seed ISO: the digest of what the machine is to be,
// and one of the keys that may log in, which are no part of that.
func (s *Spec) nodeSeedFile(node, digest, keys string) string {
	return fmt.Sprintf("homelab_%s_%s_%s-%s.iso", s.Name, node, digest[:12], keys[:8])
}

// file names a file of ours on a Proxmox storage. No cluster's or node's name has
// an underscore in it, so the parts cannot run together: a cluster called "a" does
// not own the files of one called "a-b".
func (s *Spec) file(what, digest, suffix string) string {
	return fmt.Sprintf("homelab_%s_%s_%s.%s", s.Name, what, digest[:12], suffix)
}

// ownsFile reports whether a file on a Proxmox storage was put there for this
// cluster.
func (s *Spec) ownsFile(file string) bool {
	parts := strings.Split(file, "_")
	return len(parts) == 4 && parts[0] == "homelab" && parts[1] == s.Name
}

// ownsBake reports whether a file is a seed with which a template of this cluster is baked.
func (s *Spec) ownsBake(file string) bool {
	return s.ownsFile(file) && strings.Split(file, "_")[2] == bakeName
}

// mappingID is the name of a node's resource mapping.
func (s *Spec) mappingID(node string) string { return s.Name + "_" + node }

// ourMapping is the description by which a mapping is known to be ours.
func (s *Spec) ourMapping() string { return madeFor + s.Name }

// madeFor begins the description of every mapping that we make, for whichever cluster.
const madeFor = "made by homelab for cluster "

// templateName is the name of a baked template. Each host has its own, since
// clones do not cross hosts without shared storage.
func (s *Spec) templateName(host, digest string) string {
	return s.Name + bakedInfix + host + "-" + digest[:12]
}

// bakedInfix is what the names of baked templates have behind the cluster's; no node's
// name begins so.
const bakedInfix = "-template-"

// imageFile is the name under which the cloud image is kept. Proxmox imports a
// disk only from a name that ends in its format, whatever the URL calls it.
func (s *Spec) imageFile() string {
	digest := s.Image.SHA256 + s.Image.SHA512 // there is one
	if digest == "" {
		digest = cloudinit.Digest([]byte(s.Image.URL))
	}
	return s.file("image", digest, "qcow2")
}
