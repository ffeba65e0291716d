package wire

import (
	"strconv"

	"github.com/cps-gpu/homelab/unit"
)

// ParseDiskSize reads what a drive option has; without a unit it is bytes.
func ParseDiskSize(s string) unit.Size {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return unit.Size(n)
	}
	size, _ := unit.ParseSize(s)
	return size
}

// DiskSize writes s as a drive option does: "64M", "500G".
func DiskSize(s unit.Size) string {
	n, letter := s.Whole()
	return strconv.FormatInt(n, 10) + letter
}

// InGiB writes s in GiB, as "STORAGE:SIZE" wants it for a new disk.
func InGiB(s unit.Size) string {
	return strconv.FormatFloat(float64(s)/float64(unit.GiB), 'f', -1, 64)
}

// InMiB returns s in MiB, rounded up: the unit of a VM's memory.
func InMiB(s unit.Size) int64 { return int64((s + unit.MiB - 1) / unit.MiB) }
