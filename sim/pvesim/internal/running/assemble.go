package running

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// boot gives life to a started VM: a guest, where its disk has something to boot.
func boot(w world.Worker, v *world.VM, pci []guest.PCI) error {
	w.State.PIDs += 3
	v.PID = w.State.PIDs
	v.Power(true)
	m := assemble(w.State, v, pci)
	if m == nil {
		return nil
	}
	v.Machine = m
	var err error
	w.State.WithoutLock(func() { err = m.Boot(w.State.Life) })
	if err != nil && v.Machine == m {
		v.Power(false)
		return answer.Die("start failed: %v", err)
	}
	return nil
}

// assemble plugs a machine together; nil where nobody would live in it.
func assemble(s *world.State, v *world.VM, pci []guest.PCI) hypervisor.Guest {
	h := s.Hosts[v.Node]
	osKey := s.BootDisk(v.Conf)
	if osKey == "" {
		return nil
	}
	_, osVolume, err := h.Lookup(s.Props(osKey, v.Conf[osKey])["file"])
	if err != nil || osVolume.Contents() == nil {
		return nil
	}
	b := hypervisor.Board{
		VMID: v.ID, Config: maps.Clone(v.Conf), CPUs: v.CPUs(), Memory: v.Memory(), Drives: config.AttachedDisks(s, h, v, osKey), PCI: pci,
		QEMU: s.QEMU, Seed: func() ([]byte, error) { return seed(s, v), nil }, Network: s.Network, Faults: v.Faults,
	}
	var m hypervisor.Guest
	b.OnPoweroff = func(reboot bool) { poweredOff(s, v, m, reboot) }
	m = s.Options.Hypervisor.Plug(b)
	return m
}

// seed is the disc in the VM's first drive that has one.
func seed(s *world.State, v *world.VM) []byte {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, k := range world.Drives(v.Conf) {
		d := s.Props(k, v.Conf[k])
		if !world.IsCDROM(d) {
			continue
		}
		if world.IsCloudInit(d["file"]) {
			return config.CloudDisc(s, v)
		}
		if _, vol, err := s.Hosts[v.Node].Lookup(d["file"]); err == nil && vol.Data != nil {
			return vol.Data
		}
	}
	return nil
}
