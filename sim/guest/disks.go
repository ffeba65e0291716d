package guest

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// content returns a disk's file system, made empty at first use.
func (m *core) content(i int) *disk.Disk {
	d := m.disks()[i]
	if d.Data != nil {
		return d.Data
	}
	if i == 0 {
		return m.config.Disk
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := fmt.Sprint(i, d.Serial)
	if m.extra[key] == nil {
		m.extra[key] = disk.New()
	}
	return m.extra[key]
}

// disks are the machine's disks now.
func (m *core) disks() []BlockDevice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config.Disks
}

// mounted returns devices and mount points of data disks.
func (s *system) mounted() [][2]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.devices()
}

// devices is mounted for those who hold s.mu.
func (s *system) devices() [][2]string {
	var out [][2]string
	for _, m := range s.mounts {
		for i := range s.disks() {
			if s.content(i) == m.Disk {
				out = append(out, [2]string{"/dev/" + diskName(i), m.At})
			}
		}
	}
	return out
}

func diskName(i int) string { return "sd" + string(rune('a'+i)) }

// content returns a disk's file system.
func (s *system) content(i int) *disk.Disk { return s.m.content(i) }

// disks are those that are plugged in now.
func (s *system) disks() []BlockDevice { return s.m.disks() }

// SetDisks changes what disks a machine has.
func (m *core) SetDisks(disks []BlockDevice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.config.Disks = slices.Clone(disks)
}

// changeMounts replaces the list of data disks that are mounted.
func (s *system) changeMounts(f func([]disk.Mount) []disk.Mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts = f(s.mounts)
	s.mountsChanged()
}
