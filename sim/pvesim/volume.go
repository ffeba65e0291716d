package pvesim

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
)

// volume is an image, an ISO or another file.
type volume struct {
	name    string // without the storage: "100/vm-100-disk-0.qcow2", "iso/x.iso", "vm-100-disk-0"
	content string // images, iso, import, vztmpl
	format  string // raw, qcow2, iso, …
	size    int64  // as a guest sees it, or of the file
	owner   int    // VMID, 0 for files
	base    *volume
	clones  int    // linked clones that need it
	data    []byte // of files
	disk    Disk   // contents of an OS disk; nil is blank
	made    time.Time

	notes     string // of a backup
	protected bool
	onNode    bool // a file that somebody put there who logged in to the node
}

// contents returns what a guest finds on the disk. That of a linked clone is
// made when it is first looked at: stopped machines cost next to nothing.
func (v *volume) contents() Disk {
	if v.disk == nil && v.base != nil {
		if below := v.base.contents(); below != nil {
			v.disk = below.Clone()
		}
	}
	return v.disk
}

// used is what it takes of a thin storage.
func (v *volume) used() int64 {
	switch {
	case v.owner == 0:
		return v.size
	case v.base != nil:
		return min(v.size, int64(64*MiB))
	}
	return min(v.size, int64(2*GiB))
}

// virtualSize is the size that an image says of itself, and a file's own otherwise.
func (v *volume) virtualSize() int64 {
	if len(v.data) >= 32 && isQcow2(v.data) {
		return int64(binary.BigEndian.Uint64(v.data[24:32]) & (1<<63 - 1))
	}
	return v.size
}

// ownName is a volume's name without those of what it was made of.
func (v *volume) ownName() string {
	if v.base == nil {
		return v.name
	}
	return strings.TrimPrefix(v.name, v.base.ownName()+"/")
}

func isQcow2(data []byte) bool { return bytes.HasPrefix(data, []byte("QFI\xfb")) }
