package pvesim

// replug shows a living guest the disks that its VM has now.
func (s *state) replug(v *vm) {
	m := v.machine
	osKey := s.bootDisk(v.conf)
	if m == nil || !v.running || osKey == "" {
		return
	}
	drives := s.plugged(s.hosts[v.node], v, osKey)
	s.outside(func() { m.Replug(drives) })
}

// plugged are the disks of a VM, that which it boots from first.
func (s *state) plugged(h *host, v *vm, osKey string) []Drive {
	out := []Drive{s.drive(h, v, osKey)}
	for _, k := range drives(v.conf) {
		if d := s.props(k, v.conf[k]); k != osKey && !isCDROM(d) && k != "efidisk0" && k != "tpmstate0" {
			out = append(out, s.drive(h, v, k))
		}
	}
	return out
}

func (s *state) drive(h *host, v *vm, key string) Drive {
	d := s.props(key, v.conf[key])
	out := Drive{Key: key, Serial: d["serial"], Size: parseSize(d["size"])}
	out.Shown, out.Links = s.driveNames(v.conf, d, key)
	if _, vol, err := h.lookup(d["file"]); err == nil {
		if vol.contents() == nil {
			vol.disk = s.opts.Hypervisor.Blank()
		}
		out.Disk = vol.contents()
	}
	return out
}
