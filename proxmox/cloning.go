package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/internal/printable"
)

// Cloning says how a VM gets its disks from a template; see [CloneSource.CloneTo].
type Cloning struct {
	Mode   CloneMode
	Size   Size   // that a whole clone copies, of all drives together; 0: not known
	Reason string // why the clone is whole, or what prevents it
	Cure   string // what to do about a clone that is impossible
}

// CloneMode is how disks are cloned.
type CloneMode int

const (
	// NoClone is impossible.
	NoClone CloneMode = iota
	// LinkedClone shares its blocks with the template's disks: it takes a second.
	LinkedClone
	// FullClone copies the disks.
	FullClone
)

// CloneSource is a template as its clones see it.
type CloneSource struct {
	Name     string // for messages
	Host     string
	Drives   []Drive   // of a template that does not exist yet: with the storage alone
	Storages []Storage // of Host; nil: not known
}

// NewCloneSource returns a template as a source of clones. storages are those of its host; nil: not
// known, and then only the drives' names show what is possible.
func NewCloneSource(template *VM, storages []Storage) CloneSource {
	return CloneSource{Name: template.String(), Host: template.Host, Drives: template.Drives(), Storages: storages}
}

// PlannedCloneSource returns a template that does not exist yet, with its disks on a storage of a host, as a
// source of clones.
func PlannedCloneSource(name, host, storage string, storages []Storage) CloneSource {
	return CloneSource{Name: name, Host: host, Storages: storages, Drives: []Drive{
		{Slot: bootSlot, Volume: storage + ":"}, {Slot: efiSlot, Volume: storage + ":"},
	}}
}

// CloneTo says how a VM on a host, with its disks on a storage, is cloned from the template. The storage
// is the template's own if it is empty; storages are those of the host, nil if they are not known.
//
// The rules are those of Proxmox VE: qemu-server, PVE/API2/Qemu.pm (clone_vm), and volume_has_feature
// of each plugin of pve-storage. A clone is made on the template's host. There is one request for all
// drives: they are linked, each on its own storage, or all copied to one.
func (s CloneSource) CloneTo(host string, storages []Storage, storage string) Cloning {
	boot := s.boot()
	storage = cmp.Or(storage, boot.Storage())
	if c := s.refusal(host, storages, storage); c.Reason != "" {
		return c
	}
	whole := func(format string, args ...any) Cloning {
		return Cloning{Mode: FullClone, Size: s.size(), Reason: fmt.Sprintf(format, args...)}
	}
	if storage != boot.Storage() {
		return whole("the template is on %s and the disk on %s", boot.Storage(), storage)
	}
	for _, d := range s.Drives {
		st := find(s.Storages, d.Storage())
		switch {
		case d.Disc || d.Slot == tpmSlot: // which Proxmox always copies
		case st != nil && !st.linksClones():
			return whole("%s is %s, which has no linked clones", st.Name, st.kind())
		case !d.planned() && !d.isBase():
			return whole("%s of the template is not a base disk", d.Slot)
		}
	}
	return Cloning{Mode: LinkedClone}
}

// refusal says what makes a clone impossible; without a Why nothing does.
func (s CloneSource) refusal(host string, storages []Storage, storage string) Cloning {
	st := find(storages, storage)
	switch {
	case storages != nil && (st == nil || !st.Enabled):
		return Cloning{Reason: fmt.Sprintf("%s has no storage %s, or it is disabled there", host, storage),
			Cure: "write another storage for the node: pvesm status lists those of the host"}
	}
	if st != nil {
		if why, cure := st.DiskProblem(); why != "" {
			return Cloning{Reason: why, Cure: cure}
		}
	}
	if s.Host == host {
		return Cloning{}
	}
	own := fmt.Sprintf("create a template of that name on %s too", host)
	for _, d := range s.Drives {
		at, there := find(s.Storages, d.Storage()), find(storages, d.Storage())
		local := at != nil && !at.Shared || storages != nil && (there == nil || !there.Enabled || !there.Shared)
		switch {
		case local && d.Disc:
			return Cloning{Reason: fmt.Sprintf("%s of %s is on %s, which %s does not share", d.Slot, s.Name, d.Storage(), host),
				Cure: "take the disc out: qm set VMID --" + d.Slot + " none"}
		case local:
			return Cloning{Reason: fmt.Sprintf("%s is on %s, and its storage %s is not shared with %s", s.Name, s.Host, d.Storage(), host),
				Cure: own + ", or move its disks to a storage that both hosts share"}
		}
	}
	if at := find(s.Storages, storage); st != nil && !st.Shared || s.Storages != nil && (at == nil || !at.Enabled) {
		cure := own
		if boot := s.boot().Storage(); boot != storage {
			cure += fmt.Sprintf(", or write storage: %s for the node", boot)
		}
		return Cloning{Reason: fmt.Sprintf("Proxmox clones %s to %s only if both hosts share the disk's storage, and %s is %s's own", s.Name,
			host, storage, host), Cure: cure}
	}
	return Cloning{}
}

// boot is the drive that clones boot from, or else the first disk.
func (s CloneSource) boot() (first Drive) {
	for _, d := range s.Drives {
		switch {
		case d.Slot == bootSlot:
			return d
		case first.Slot == "" && !d.Disc && d.Slot != efiSlot && d.Slot != tpmSlot:
			first = d
		}
	}
	return first
}

// size is what a whole clone copies.
func (s CloneSource) size() (sum Size) {
	for _, d := range s.Drives {
		if !d.Disc {
			sum += d.Size
		}
	}
	return sum
}

func find(all []Storage, name string) *Storage {
	i := slices.IndexFunc(all, func(s Storage) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// linksClones reports whether disks of templates become base disks on a storage, from which clones
// are made without copying. A plugin that Proxmox does not ship is taken for one that has them: the
// names of the disks show whether it is so.
func (s Storage) linksClones() bool {
	return !slices.Contains([]string{"lvm", "iscsi", "iscsidirect"}, s.Type)
}

// DiskProblem says why no disk can be created on a storage of that type, and where it can be instead;
// empty if it can.
func (s Storage) DiskProblem() (why, cure string) {
	switch s.Type {
	case "iscsi", "iscsidirect":
		cure = fmt.Sprintf("its LUNs exist already: put LVM on one (pvesm add lvm NAME --vgname GROUP --base %s:LUN --shared 1), and name that storage", printable.Word(s.Name))
	case "esxi", "pbs", "cephfs":
		cure = "name a storage for disks: LVM, LVM-thin, ZFS, RBD, a directory, NFS or CIFS"
	default:
		return "", ""
	}
	return fmt.Sprintf("no disk can be created on %s, which is %s", s.Name, s.kind()), cure
}

// IsThick reports whether a new disk takes its whole size at once.
func (s Storage) IsThick() bool { return s.Type == "lvm" }

// kind names a type for people.
func (s Storage) kind() string {
	switch s.Type {
	case "lvm":
		return "LVM without thin provisioning"
	case "iscsi", "iscsidirect":
		return "iSCSI"
	case "esxi":
		return "an ESXi host"
	case "pbs":
		return "a backup server"
	case "cephfs":
		return "CephFS"
	}
	return s.Type
}

// UnconvertedDisks returns the disks of a template that are not base disks and can become such: an
// interrupted conversion left them. On a storage without base disks, disks stay as they are.
func (c *TemplateClient) UnconvertedDisks(ctx context.Context, vm *VM) ([]string, error) {
	off := vm.UnconvertedDisks()
	if len(off) == 0 {
		return nil, nil
	}
	all, err := c.client.Storages.List(ctx, vm.Host)
	return slices.DeleteFunc(off, func(slot string) bool {
		i := slices.IndexFunc(vm.Drives(), func(d Drive) bool { return d.Slot == slot })
		st := find(all, vm.Drives()[i].Storage())
		return st != nil && !st.linksClones()
	}), err
}
