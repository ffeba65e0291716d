package hostprep

import (
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// StorageUse is one purpose of a storage of a host.
type StorageUse struct{ Storage, Content, Why string }

// Uses lists the purposes of a host's storages in the file.
func Uses(s *spec.Spec, host string) []StorageUse {
	uses := []StorageUse{
		{s.Image.SeedStorage, ISOContent, "first-boot ISOs"},
	}
	if s.Image.Template == "" {
		uses = append(uses,
			StorageUse{s.Image.ImageStorage, "import", "the cloud image"},
			StorageUse{s.TemplateStorage(host), "images", "the template's disk"})
	}
	for _, n := range s.Machines() {
		if n.External || n.Host != host && !n.Unplaced() {
			continue
		}
		uses = append(uses, StorageUse{n.OSDisk.Storage, "images", "the disk of " + n.Name})
		for _, d := range n.Disks {
			uses = append(uses, StorageUse{d.Storage, "images", "the disk " + d.Name + " of " + n.Name})
		}
	}
	seen := map[[2]string]bool{}
	return slices.DeleteFunc(uses, func(u StorageUse) bool {
		key := [2]string{u.Storage, u.Content}
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

// ISOContent is Proxmox's name for volumes that can be put into a CD drive.
const ISOContent = "iso"
