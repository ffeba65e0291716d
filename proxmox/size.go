package proxmox

import (
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
