package running

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/windows"
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
	discs := discsOf(s, v)
	if err != nil || osVolume.Contents() == nil && !windows.IsDisc(discs) { // what other discs do is not played
		return nil
	}
	b := hypervisor.Board{
		VMID: v.ID, Config: maps.Clone(v.Conf), CPUs: v.CPUs(), Memory: v.Memory(), Drives: config.AttachedDisks(s, h, v, osKey), PCI: pci,
		QEMU: s.QEMU, Seed: func() ([]byte, error) { return seed(s, v), nil }, Discs: discs, Network: s.Network, Faults: v.Faults,
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

// discsOf are the discs that a VM may boot from, in that order, and those of its other drives but the first, which is the seed.
func discsOf(s *world.State, v *world.VM) (out [][]byte) {
	_, order, _ := strings.Cut(v.Conf["boot"], "order=")
	keys := slices.DeleteFunc(schema.SplitList(order), func(k string) bool { return !world.IsDrive(k) || !world.IsCDROM(s.Props(k, v.Conf[k])) })
	if len(keys) == 0 {
		return nil // the firmware looks at none
	}
	for _, k := range world.Drives(v.Conf) {
		if world.IsCDROM(s.Props(k, v.Conf[k])) && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if _, vol, err := s.Hosts[v.Node].Lookup(s.Props(k, v.Conf[k])["file"]); err == nil && vol.Data != nil {
			out = append(out, vol.Data)
		}
	}
	return out
}
