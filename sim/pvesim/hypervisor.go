package pvesim

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

// simulated is the Hypervisor that package guest is.
type simulated struct{ s *Sim }

// tree is the contents of a simulated disk.
type tree struct {
	*guest.Disk
	s *Sim
}

func (t tree) Clone() Disk { return tree{t.Disk.Clone(), t.s} }
func (t tree) Forget()     { t.s.network.Forget(t.Disk) }

func (h simulated) Blank() Disk { return tree{guest.NewDisk(), h.s} }

func (h simulated) Open(image []byte) (Disk, error) {
	d, err := guest.OpenImage(image)
	if err != nil {
		return nil, err
	}
	return tree{d, h.s}, nil
}

// machine is a simulated guest.
type machine struct{ *guest.Machine }

func (m machine) Replug(drives []Drive) { m.SetDisks(blockDevices(drives)) }

func (h simulated) Plug(b Board) Guest {
	o := h.s.opts
	cfg := guest.Config{
		Name: b.Config["name"], VMID: b.VMID, CPUs: b.CPUs, Memory: b.Memory, PCI: b.PCI, Disks: blockDevices(b.Drives),
		Network: b.Network, Internet: o.Internet, Kubernetes: o.Kubernetes, Speed: o.Speed, Lean: o.Lean,
		Faults: b.Faults, Seed: b.Seed, OnPoweroff: b.OnPoweroff,
		SecureBoot: b.Config["bios"] == "ovmf" && h.s.props("efidisk0", b.Config["efidisk0"])["pre-enrolled-keys"] == "1",
	}
	cfg.Disk = cfg.Disks[0].Data
	for i := range 32 {
		if value := b.Config["net"+itoa(i)]; value != "" {
			cfg.MACs = append(cfg.MACs, h.s.props("net0", value)["macaddr"])
		}
	}
	return machine{guest.New(cfg)}
}

func blockDevices(drives []Drive) []guest.BlockDevice {
	out := make([]guest.BlockDevice, 0, len(drives))
	for _, d := range drives {
		b := guest.BlockDevice{Serial: d.Shown, Links: d.Links, Size: d.Size}
		if t, ok := d.Disk.(tree); ok {
			b.Data = t.Disk
		}
		out = append(out, b)
	}
	return out
}

// simulatedGuest is the guest of a VM where it is a simulated one.
func (v *vm) simulatedGuest() *guest.Machine {
	if m, ok := v.machine.(machine); ok {
		return m.Machine
	}
	return nil
}
