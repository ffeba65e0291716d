package proxmox

import (
	"github.com/cps-gpu/homelab/proxmox/machine"
	"github.com/cps-gpu/homelab/unit"
)

// What a VM is and should be is package machine; these are its names that users of this
// package write.
type (
	VMSpec   = machine.Spec
	VM       = machine.VM
	NIC      = machine.NIC
	Disk     = machine.Disk
	HostPCI  = machine.HostPCI
	NUMANode = machine.NUMANode
	Summary  = machine.Summary
)

// None removes an option of a [VMSpec] that only root@pam may set.
const None = machine.None

// Size is a number of bytes that prints as people write it: 16GiB.
type Size = unit.Size

// The units of Size. Proxmox counts in powers of 1024 everywhere.
const (
	KiB = unit.KiB
	MiB = unit.MiB
	GiB = unit.GiB
	TiB = unit.TiB
)
