package hypervisor

import (
	"context"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Hypervisor makes what lives in VMs. That of a Sim without one is package guest,
// simulated like the rest; package qemu's is real.
type Hypervisor interface {
	// Open returns what is on a disk image, or an error for one that it does not know.
	Open(image []byte) (Disk, error)
	// Blank returns what is on a new disk: nothing.
	Blank() Disk
	// Plug returns the machine of a VM that starts. It is off.
	Plug(b Board) Guest
}

// Disk is what is on a volume.
type Disk interface {
	// Clone returns a copy, at once and for any size.
	Clone() Disk
	// Forget is told that the volume is gone.
	Forget()
}

// Guest is the machine of a VM that runs. Its methods may take their time, and wrap
// [guest.ErrOff] and [guest.ErrNoAgent] as those of guest.Machine do.
type Guest interface {
	// Boot switches it on, and does not wait until it is up. It lives no longer than ctx.
	Boot(ctx context.Context) error
	// Kill cuts the power. Nothing of the guest runs any more when it returns.
	Kill()
	// Shutdown asks the guest to end.
	Shutdown() error
	// Replug shows the guest the disks that its VM has now.
	Replug(drives []Drive)

	// Talks reports whether the guest has sent packets since it was switched on.
	Talks() bool

	AgentUp() bool
	AgentExec(argv []string, input []byte) (pid int, err error)
	AgentStatus(pid int) (guest.ExecStatus, error)
	AgentReadFile(name string) ([]byte, error)
	AgentWriteFile(name string, data []byte) error
	AgentInterfaces() ([]guest.Interface, error)
}

// Typist is a Guest that has a keyboard.
type Typist interface{ Press(key string) }

// Traffic is what a guest has read and written since its power-on, in bytes.
type Traffic struct{ Read, Written int64 }

// Meter is a Guest whose drives are metered.
type Meter interface {
	// Traffic returns that of the disk it boots from, and of its first disc.
	Traffic() (disk, disc Traffic)
}

// Board is a VM as a hypervisor gets it.
type Board struct {
	VMID   int
	Config map[string]string // the options of the VM, as in its file
	CPUs   int
	Memory int64       // bytes
	Drives []Drive     // its disks; that which it boots from first
	PCI    []guest.PCI // passed-through functions
	QEMU   string      // version of the host's QEMU, which counts for a machine type without one

	// Seed returns the disc in the VM's CD drive at each boot, nil for none.
	Seed    func() ([]byte, error)
	Network *guest.Network
	Faults  guest.Faults
	// Discs are those in the other CD drives when it starts, that which it boots from first.
	Discs [][]byte
	// OnPoweroff is told that the guest has switched itself off, without locks held.
	// With reboot it goes on by itself, and this is only news.
	OnPoweroff func(reboot bool)
}

// Drive is a disk of a VM.
type Drive struct {
	Key    string // scsi1
	Serial string // empty for none
	Size   int64  // bytes
	Disk   Disk

	// What Linux calls it: the serial that lsblk tells, and the links below /dev/disk/by-id.
	Shown string
	Links []string
}
