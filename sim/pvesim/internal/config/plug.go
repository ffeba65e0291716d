package config

import (
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// replug shows a living guest the disks that its VM has now.
func replug(s *world.State, v *world.VM) {
	m := v.Machine
	osKey := s.BootDisk(v.Conf)
	if m == nil || !v.Running || osKey == "" {
		return
	}
	drives := AttachedDisks(s, s.Hosts[v.Node], v, osKey)
	s.WithoutLock(func() { m.Replug(drives) })
}

// AttachedDisks are the disks of a VM, that which it boots from first.
func AttachedDisks(s *world.State, h *world.Host, v *world.VM, osKey string) []hypervisor.Drive {
	out := []hypervisor.Drive{drive(s, h, v, osKey)}
	for _, k := range world.Drives(v.Conf) {
		if d := s.Props(k, v.Conf[k]); k != osKey && !world.IsCDROM(d) && k != "efidisk0" && k != "tpmstate0" {
			out = append(out, drive(s, h, v, k))
		}
	}
	return out
}

func drive(s *world.State, h *world.Host, v *world.VM, key string) hypervisor.Drive {
	d := s.Props(key, v.Conf[key])
	out := hypervisor.Drive{Key: key, Serial: d["serial"], Size: schema.ParseSize(d["size"])}
	out.Shown, out.Links = driveNames(s, v.Conf, d, key)
	if _, vol, err := h.Lookup(d["file"]); err == nil {
		if vol.Contents() == nil {
			vol.Disk = s.Options.Hypervisor.Blank()
		}
		out.Disk = vol.Contents()
	}
	return out
}
