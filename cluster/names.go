package cluster

import (
	"fmt"
	"strings"
)

// tag is the Proxmox tag of every VM that belongs to the cluster. A VM without it
// is somebody else's, whatever its name.
func (s *Spec) tag() string { return "homelab-" + s.Name }

// seedFile is the name of a node's seed ISO. The digest of its content is part of
// it: "is it there?" is a lookup, and a changed input is a changed name.
func (s *Spec) seedFile(node, digest string) string {
	return fmt.Sprintf("%s-%s-%s.iso", s.Name, node, digest[:12])
}

// ownsFile reports whether a volume on a Proxmox storage was uploaded or
// downloaded by us for this cluster: our prefix, a digest of twelve, a suffix.
func (s *Spec) ownsFile(file string) bool {
	rest, ok := strings.CutPrefix(file, s.Name+"-")
	if !ok {
		return false
	}
	stem, suffix, _ := strings.Cut(rest, ".")
	digest := stem[strings.LastIndexByte(stem, '-')+1:]
	return (suffix == "iso" || suffix == "qcow2") && len(digest) == 12 && strings.Trim(digest, "0123456789abcdef") == ""
}

// mappingID is the name of a node's resource mapping.
func (s *Spec) mappingID(node string) string { return s.Name + "-" + node }

// ourMapping is the description by which a mapping is known to be ours.
func (s *Spec) ourMapping() string { return "made by homelab for cluster " + s.Name }

// templateName is the name of a baked template. Each host has its own, since
// clones do not cross hosts without shared storage.
func (s *Spec) templateName(host, digest string) string {
	return fmt.Sprintf("%s-template-%s-%s", s.Name, host, digest[:12])
}

// imageFile is the name under which the cloud image is kept. Proxmox imports a
// disk only from a name that ends in its format, whatever the URL calls it.
func (s *Spec) imageFile() string {
	digest := s.Image.SHA256
	if digest == "" {
		digest = fmt.Sprintf("%x", s.Image.URL+strings.Repeat("-", 12))
	}
	return fmt.Sprintf("%s-%s.qcow2", s.Name, digest[:12])
}
