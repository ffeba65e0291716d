package pvesim

import (
	"encoding/binary"
	"strconv"
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

// parseSize reads sizes such as 64M as they stand in configurations; 0 for none.
func parseSize(s string) int64 {
	s = strings.TrimPrefix(s, "+")
	if s == "" {
		return 0
	}
	unit := int64(1)
	switch s[len(s)-1] {
	case 'K':
		unit = int64(KiB)
	case 'M':
		unit = int64(MiB)
	case 'G':
		unit = int64(GiB)
	case 'T':
		unit = int64(TiB)
	}
	if unit > 1 {
		s = s[:len(s)-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return int64(f * float64(unit))
}

// formatSize writes a size as configurations have it: in the largest unit up to
// G that it is a whole number of.
func formatSize(n int64) string {
	unit := 0
	for unit < 4 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + [...]string{"", "K", "M", "G", "T"}[unit]
}
