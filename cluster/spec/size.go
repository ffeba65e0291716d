package spec

import "github.com/cps-gpu/homelab/proxmox/unit"

// Size is an amount of memory or disk in bytes. It prints as 16GiB.
type Size = unit.Size

// The units, in powers of 1024.
const (
	KiB = unit.KiB
	MiB = unit.MiB
	GiB = unit.GiB
	TiB = unit.TiB
)

// PCIAddress is the address of a device on a host: a whole device, or one function of it.
type PCIAddress = unit.PCIAddress
