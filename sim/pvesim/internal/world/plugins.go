package world

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
)

// plugin is what a type of storage can do, by the sources of pve-storage.
type plugin struct {
	files    bool              // a directory of files
	formats  string            // that new disks may have, the default first
	features map[string]string // feature/what of → formats of the volume; * is any
	noSpace  string            // how alloc_image refuses, for storages where nothing can be made
}

// Sets of features, as volume_has_feature has them. "base" is a volume called base-…,
// "current" any other, "snap" a snapshot of one.
var (
	fileFeatures = map[string]string{ // PVE/Storage/Plugin.pm
		"snapshot/current": "qcow2", "snapshot/snap": "qcow2",
		"clone/base":       "qcow2 raw vmdk",
		"template/current": "qcow2 raw vmdk subvol",
		"copy/base":        "qcow2 raw vmdk", "copy/current": "qcow2 raw vmdk", "copy/snap": "qcow2",
	}
	btrfsFeatures = map[string]string{ // BTRFSPlugin.pm
		"snapshot/current": "qcow2 raw subvol", "snapshot/snap": "qcow2 raw subvol",
		"clone/base": "qcow2 raw subvol vmdk", "clone/current": "raw", "clone/snap": "raw",
		"template/current": "qcow2 raw vmdk subvol",
		"copy/base":        "qcow2 raw subvol vmdk", "copy/current": "qcow2 raw subvol vmdk", "copy/snap": "qcow2 raw subvol",
	}
	lvmFeatures = map[string]string{ // LVMPlugin.pm: neither templates nor clones
		"snapshot/current": "qcow2", "snapshot/snap": "qcow2",
		"copy/base": "qcow2 raw", "copy/current": "qcow2 raw", "copy/snap": "qcow2",
	}
	thinFeatures = map[string]string{ // LvmThinPlugin.pm
		"snapshot/current": "*", "clone/base": "*", "clone/snap": "*", "template/current": "*",
		"copy/base": "*", "copy/current": "*", "copy/snap": "*",
	}
	zfsFeatures = map[string]string{ // ZFSPoolPlugin.pm, and ZFSPlugin.pm for ZFS over iSCSI
		"snapshot/current": "*", "snapshot/snap": "*", "clone/base": "*", "template/current": "*",
		"copy/base": "*", "copy/current": "*",
	}
	rbdFeatures = map[string]string{ // RBDPlugin.pm
		"snapshot/current": "*", "snapshot/snap": "*", "clone/base": "*", "clone/snap": "*", "template/current": "*",
		"copy/base": "*", "copy/current": "*", "copy/snap": "*",
	}
	iscsiFeatures = map[string]string{"copy/current": "*"}                   // ISCSIPlugin.pm, ISCSIDirectPlugin.pm
	esxiFeatures  = map[string]string{"copy/base": "*", "copy/current": "*"} // ESXiPlugin.pm
)

var plugins = map[string]plugin{
	"dir":         {files: true, formats: "raw qcow2 vmdk subvol", features: fileFeatures},
	"nfs":         {files: true, formats: "raw qcow2 vmdk", features: fileFeatures},
	"cifs":        {files: true, formats: "raw qcow2 vmdk", features: fileFeatures},
	"glusterfs":   {files: true, formats: "raw qcow2 vmdk", features: fileFeatures}, // until Proxmox VE 8
	"cephfs":      {files: true, formats: "raw", features: fileFeatures},
	"btrfs":       {files: true, formats: "raw subvol", features: btrfsFeatures},
	"lvm":         {formats: "raw", features: lvmFeatures},
	"lvmthin":     {formats: "raw", features: thinFeatures},
	"zfspool":     {formats: "raw subvol", features: zfsFeatures},
	"zfs":         {formats: "raw", features: zfsFeatures},
	"rbd":         {formats: "raw", features: rbdFeatures},
	"iscsi":       {formats: "raw", features: iscsiFeatures, noSpace: "can't allocate space in iscsi storage"},
	"iscsidirect": {formats: "raw", features: iscsiFeatures, noSpace: "can't allocate space in iscsi storage"},
	"esxi":        {formats: "raw qcow2 vmdk", features: esxiFeatures, noSpace: "can't allocate space in esxi storage"},
	"pbs":         {formats: "raw", noSpace: "can't allocate space in pbs storage"},
}

// FileBased reports whether a storage is a directory of files.
func (st *Storage) FileBased() bool { return plugins[st.Type].files }

// Thick reports whether a volume takes its whole size at once.
func (st *Storage) Thick() bool { return st.Type == "lvm" }

// Formats are those that new disks may have, the default first (get_formats).
func (st *Storage) Formats() []string {
	formats := strings.Fields(plugins[st.Type].formats)
	if st.Type == "lvm" && st.Config["snapshot-as-volume-chain"] == "1" {
		formats = []string{"qcow2", "raw"}
	}
	if usual := st.Config["format"]; usual != "" {
		formats = append([]string{usual}, slices.DeleteFunc(formats, func(f string) bool { return f == usual })...)
	}
	return formats
}

// FormatFor is the format of a disk that is to have one, where it can (resolve_format_hint).
func (st *Storage) FormatFor(hint string) string {
	formats := st.Formats()
	if slices.Contains(formats, hint) || len(formats) == 0 {
		return hint
	}
	return formats[0]
}

// Has reports whether a volume has a feature: clone, copy, snapshot or template; with snap,
// a snapshot of the volume.
func (st *Storage) Has(feature, volume string, snap bool) bool {
	of := "current"
	switch {
	case snap:
		of = "snap"
	case strings.HasPrefix(path.Base(volume), "base-"):
		of = "base"
	}
	formats := plugins[st.Type].features[feature+"/"+of]
	return formats == "*" || slices.Contains(strings.Fields(formats), FormatOf(st, volume))
}

// Apart reports whether a linked clone of a volume needs it no more once it is made, and has
// no trace of it in its name: a thin snapshot of LVM, a subvolume of Btrfs.
func (st *Storage) Apart(format string) bool {
	return st.Type == "lvmthin" || st.Type == "btrfs" && format == "raw"
}

// extent is LVM's usual unit of allocation.
const extent = 4 << 20

// CanTake refuses a volume that cannot be made, or has no space.
func (st *Storage) CanTake(vol *Volume) error {
	free := int64(st.Size) - st.UsedBytes()
	switch {
	case plugins[st.Type].noSpace != "":
		return answer.Die("%s", plugins[st.Type].noSpace)
	case st.Thick() && free < vol.Size: // LVMPlugin.pm compares bytes with KiB, so it is lvcreate that answers
		group := cmp.Or(st.Config["vgname"], st.Name)
		return answer.Die("lvcreate '%s/%s' error:   Volume group \"%s\" has insufficient free space (%d extents): %d required.",
			group, vol.Name, group, free/extent, (vol.Size+extent-1)/extent)
	case free <= 0:
		return answer.Die("unable to create image: No space left on device")
	}
	return nil
}

// CanGrow refuses the growth of a volume that a storage has no space for (volume_resize).
func (st *Storage) CanGrow(vol *Volume, to int64) error {
	if free := int64(st.Size) - st.UsedBytes(); st.Thick() && free < to-vol.Size {
		return answer.Die("error resizing volume '%s':   Insufficient free space: %d extents needed, but only %d available",
			st.Path(vol.Name), (to-vol.Size+extent-1)/extent, free/extent)
	}
	return nil
}

// Takes is how much of a storage a volume takes.
func (st *Storage) Takes(v *Volume) int64 {
	if st.Thick() {
		return v.Size
	}
	return v.Used()
}
