package pvesim

import (
	"strconv"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/windows"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

type (
	// Hypervisor makes what lives in VMs. That of a Sim without one is package guest,
	// simulated like the rest; package qemu's is real.
	Hypervisor = hypervisor.Hypervisor
	// Disk is what is on a volume.
	Disk = hypervisor.Disk
	// Guest is the machine of a VM that runs. Its methods may take their time, and wrap
	// [guest.ErrOff] and [guest.ErrNoAgent] as those of guest.Machine do.
	Guest = hypervisor.Guest
	// Board is a VM as a hypervisor gets it.
	Board = hypervisor.Board
	// Drive is a disk of a VM.
	Drive = hypervisor.Drive
)

// simulatedHypervisor is the Hypervisor that package guest is.
type simulatedHypervisor struct{ s *world.State }

// tree is the contents of a simulated disk.
type tree struct {
	*guest.Disk
	s *world.State
}

func (t tree) Clone() Disk { return tree{t.Disk.Clone(), t.s} }
func (t tree) Forget()     { t.s.Network.Forget(t.Disk) }

func (h simulatedHypervisor) Blank() Disk { return tree{guest.NewDisk(), h.s} }

func (h simulatedHypervisor) Open(image []byte) (Disk, error) {
	d, err := guest.OpenImage(image)
	if err != nil {
		return nil, err
	}
	return tree{d, h.s}, nil
}

// machine is a simulated guest.
type machine struct{ *guest.Machine }

func (m machine) Replug(drives []Drive) { m.SetDisks(blockDevices(drives)) }

func (h simulatedHypervisor) Plug(b Board) Guest {
	o := h.s.Options
	cfg := guest.Config{
		Name: b.Config["name"], VMID: b.VMID, CPUs: b.CPUs, Memory: b.Memory, PCI: b.PCI, Disks: blockDevices(b.Drives),
		Network: b.Network, Internet: o.Internet, Kubernetes: o.Kubernetes, Speed: o.Speed, Lean: o.Lean,
		Faults: b.Faults, Seed: b.Seed, OnPoweroff: b.OnPoweroff,
		SecureBoot: b.Config["bios"] == "ovmf" && h.s.Props("efidisk0", b.Config["efidisk0"])["pre-enrolled-keys"] == "1",
	}
	cfg.Disk = cfg.Disks[0].Data
	if windows.IsInstalled(cfg.Disk) || windows.IsDisc(b.Discs) && !cfg.Disk.Exists("/etc/os-release") {
		return windows.New(b, cfg.Disk, o.Speed)
	}
	for i := range 32 {
		if value := b.Config["net"+strconv.Itoa(i)]; value != "" {
			cfg.MACs = append(cfg.MACs, h.s.Props("net0", value)["macaddr"])
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
func simulatedGuest(v *world.VM) *guest.Machine {
	if m, ok := v.Machine.(machine); ok {
		return m.Machine
	}
	return nil
}
