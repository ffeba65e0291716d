package world

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Volume is an image, an ISO or another file.
type Volume struct {
	Name    string // without the storage: "100/vm-100-disk-0.qcow2", "iso/x.iso", "vm-100-disk-0"
	Content string // images, iso, import, vztmpl
	Format  string // raw, qcow2, iso, …
	Size    int64  // as a guest sees it, or of the file
	Owner   int    // VMID, 0 for files
	Base    *Volume
	Clones  int             // linked clones that need it
	Thin    bool            // a linked clone that shares its blocks with its base and does not need it
	Data    []byte          // of files
	Disk    hypervisor.Disk // contents of an OS disk; nil is blank
	Made    time.Time

	OnNode bool // a file that somebody put there who logged in to the node
}

// Contents returns what a guest finds on the disk. That of a linked clone is
// made when it is first looked at: stopped machines cost next to nothing.
func (v *Volume) Contents() hypervisor.Disk {
	if v.Disk == nil && v.Base != nil {
		if below := v.Base.Contents(); below != nil {
			v.Disk = below.Clone()
		}
	}
	return v.Disk
}

// Used is what it takes of a thin storage.
func (v *Volume) Used() int64 {
	switch {
	case v.Owner == 0:
		return v.Size
	case v.Base != nil || v.Thin:
		return min(v.Size, int64(64*model.MiB))
	}
	return min(v.Size, int64(2*model.GiB))
}

// VirtualSize is the size that an image says of itself, and a file's own otherwise.
func (v *Volume) VirtualSize() int64 {
	if len(v.Data) >= 32 && IsQCOW2(v.Data) {
		return int64(binary.BigEndian.Uint64(v.Data[24:32]) & (1<<63 - 1))
	}
	return v.Size
}

// OwnName is a volume's name without those of what it was made of.
func (v *Volume) OwnName() string {
	if v.Base == nil {
		return v.Name
	}
	return strings.TrimPrefix(v.Name, v.Base.OwnName()+"/")
}

// IsQCOW2 reports whether a file is an image in that format.
func IsQCOW2(data []byte) bool { return bytes.HasPrefix(data, []byte("QFI\xfb")) }
