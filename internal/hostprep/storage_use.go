package hostprep

import (
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// StorageUse is one purpose of a storage of a host.
type StorageUse struct {
	Storage, Content, Why string
	Discs                 bool // others have put the files there
	Claims                bool // storage.proxmox puts volumes there, with a token of its own
}

// bakes reports whether a template is made on a host, for the machines there.
func bakes(s *spec.Spec, host string) bool {
	return s.Image.Template == "" && slices.ContainsFunc(s.Machines(), func(n spec.Node) bool { return n.FromTemplate() && (n.Host == host || n.Unplaced()) })
}

// Uses lists the purposes of a host's storages in the file.
func Uses(s *spec.Spec, host string) []StorageUse {
	uses := []StorageUse{
		{Storage: s.Image.SeedStorage, Content: ISOContent, Why: "first-boot ISOs"},
	}
	if bakes(s, host) {
		uses = append(uses,
			StorageUse{Storage: s.Image.ImageStorage, Content: "import", Why: "the cloud image"},
			StorageUse{Storage: s.TemplateStorage(host), Content: "images", Why: "the template's disk"})
	}
	for _, n := range s.Machines() {
		if !n.OnProxmox() || n.Host != host && !n.Unplaced() {
			continue
		}
		if n.FromImage() {
			uses = append(uses, StorageUse{Storage: s.Image.ImageStorage, Content: "import", Why: "the image of " + n.Name})
		}
		uses = append(uses, discUses(n)...)
		uses = append(uses, StorageUse{Storage: n.OSDisk.Storage, Content: "images", Why: "the disk of " + n.Name})
		for _, d := range n.Disks {
			uses = append(uses, StorageUse{Storage: d.Storage, Content: "images", Why: "the disk " + d.Name + " of " + n.Name})
		}
	}
	if c := s.Platform.Storage.Proxmox; c != nil {
		uses = append(uses, StorageUse{Storage: c.Storage, Content: "images", Why: "volumes of claims (storage.proxmox)", Claims: true})
	}
	seen := map[StorageUse]bool{}
	return slices.DeleteFunc(uses, func(u StorageUse) bool {
		key := StorageUse{Storage: u.Storage, Content: u.Content, Discs: u.Discs, Claims: u.Claims}
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

// discUses are the storages of the discs that a machine is installed from.
func discUses(n spec.Node) (uses []StorageUse) {
	if !n.FromDiscs() {
		return nil
	}
	for _, disc := range n.Boot.ISO.Discs() {
		storage, _, _ := strings.Cut(disc, ":")
		uses = append(uses, StorageUse{Storage: storage, Content: ISOContent, Why: "the discs of " + n.Name, Discs: true})
	}
	return uses
}

// ISOContent is Proxmox's name for volumes that can be put into a CD drive.
const ISOContent = "iso"
