package proxmox

import "github.com/cps-gpu/homelab/proxmox/unit"

// Size is an amount of memory or disk in bytes. It prints as people write it: 16GiB.
type Size = unit.Size

// The units of Size. Proxmox counts in powers of 1024 everywhere.
const (
	KiB = unit.KiB
	MiB = unit.MiB
	GiB = unit.GiB
	TiB = unit.TiB
)

// PCIAddress is the address of a device in a host. Function is -1 for the whole device, with all
// its functions.
type PCIAddress = unit.PCIAddress

// ParsePCIAddress is [unit.ParsePCIAddress].
func ParsePCIAddress(s string) (PCIAddress, error) { return unit.ParsePCIAddress(s) }
