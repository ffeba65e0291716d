package proxmox

import (
	"strconv"

	"github.com/cps-gpu/homelab/unit"
)

// Size is a number of bytes that prints as people write it: 16GiB.
type Size = unit.Size

// The units of Size. Proxmox counts in powers of 1024 everywhere.
const (
	KiB = unit.KiB
	MiB = unit.MiB
	GiB = unit.GiB
	TiB = unit.TiB
)

// parseDiskSize reads what a drive option has; without a unit it is bytes.
func parseDiskSize(s string) Size {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Size(n)
	}
	size, _ := unit.ParseSize(s)
	return size
}

// diskSize writes s as a drive option does: "64M", "500G".
func diskSize(s Size) string {
	n, letter := s.Whole()
	return strconv.FormatInt(n, 10) + letter
}

// inGiB writes s in GiB, as "STORAGE:SIZE" wants it for a new disk.
func inGiB(s Size) string {
	return strconv.FormatFloat(float64(s)/float64(GiB), 'f', -1, 64)
}

// inMiB returns s in MiB, rounded up: the unit of a VM's memory.
func inMiB(s Size) int64 { return int64((s + MiB - 1) / MiB) }
