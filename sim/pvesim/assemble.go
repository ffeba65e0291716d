package pvesim

import (
	"maps"

	"github.com/cps-gpu/homelab/sim/guest"
)

// boot gives life to a started VM: a guest, where its disk has something to boot.
func (w worker) boot(v *vm, pci []guest.PCI) error {
	w.s.pids += 3
	v.pid = w.s.pids
	v.power(true)
	m := w.s.assemble(v, pci)
	if m == nil {
		return nil
	}
	v.machine = m
	var err error
	w.s.outside(func() { err = m.Boot(w.s.life) })
	if err != nil && v.machine == m {
		v.power(false)
		return die("start failed: %v", err)
	}
	return nil
}

// assemble plugs a machine together; nil where nobody would live in it.
func (s *state) assemble(v *vm, pci []guest.PCI) Guest {
	h := s.hosts[v.node]
	osKey := s.bootDisk(v.conf)
	if osKey == "" {
		return nil
	}
	_, osVolume, err := h.lookup(s.props(osKey, v.conf[osKey])["file"])
	if err != nil || osVolume.contents() == nil {
		return nil
	}
	b := Board{
		VMID: v.id, Config: maps.Clone(v.conf), CPUs: v.cpus(), Memory: v.memory(), Drives: s.plugged(h, v, osKey), PCI: pci,
		QEMU: s.qemu, Seed: func() ([]byte, error) { return s.seed(v), nil }, Network: s.network, Faults: v.faults,
	}
	var m Guest
	b.OnPoweroff = func(reboot bool) { s.poweredOff(v, m, reboot) }
	m = s.opts.Hypervisor.Plug(b)
	return m
}

// seed is the disc in the VM's first drive that has one.
func (s *state) seed(v *vm) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range drives(v.conf) {
		d := s.props(k, v.conf[k])
		if !isCDROM(d) {
			continue
		}
		if isCloudInit(d["file"]) {
			return s.cloudDisc(v)
		}
		if _, vol, err := s.hosts[v.node].lookup(d["file"]); err == nil && vol.data != nil {
			return vol.data
		}
	}
	return nil
}
