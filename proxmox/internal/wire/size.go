package wire

import (
	"strconv"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// ParseDiskSize parses the size of a drive option; without a unit it is in bytes.
func ParseDiskSize(s string) unit.Size {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return unit.Size(n)
	}
	size, _ := unit.ParseSize(s)
	return size
}

// DiskSize formats s as in a drive option: "64M", "500G".
func DiskSize(s unit.Size) string {
	n, letter := s.Whole()
	return strconv.FormatInt(n, 10) + letter
}

// FormatGiB formats s in GiB, as in "STORAGE:SIZE" for a new disk.
func FormatGiB(s unit.Size) string {
	return strconv.FormatFloat(float64(s)/float64(unit.GiB), 'f', -1, 64)
}

// RoundMiB returns s in MiB, rounded up: the unit of a VM's memory.
func RoundMiB(s unit.Size) int64 { return int64((s + unit.MiB - 1) / unit.MiB) }
