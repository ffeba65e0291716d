package machine

import (
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// content returns a disk's file system, made empty at first use.
func (m *Machine) content(i int) *disk.Disk {
	d := m.disks()[i]
	if d.Data != nil {
		return d.Data
	}
	if i == 0 {
		return m.Config.Disk
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
func (m *Machine) disks() []BlockDevice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Config.Disks
}

// MountedDisks returns devices and mount points of data disks.
func (s *System) MountedDisks() [][2]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.devices()
}

// devices is mounted for those who hold s.mu.
func (s *System) devices() [][2]string {
	var out [][2]string
	for _, m := range s.mounts {
		for i := range s.Disks() {
			if s.Content(i) == m.Disk {
				out = append(out, [2]string{"/dev/" + DiskName(i), m.At})
			}
		}
	}
	return out
}

// DiskName is what the kernel calls a disk.
func DiskName(i int) string { return "sd" + string(rune('a'+i)) }

// Content returns a disk's file system.
func (s *System) Content(i int) *disk.Disk { return s.m.content(i) }

// Disks are those that are plugged in now.
func (s *System) Disks() []BlockDevice { return s.m.disks() }

// SetDisks changes what disks a machine has.
func (m *Machine) SetDisks(disks []BlockDevice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Config.Disks = slices.Clone(disks)
}

// ChangeMounts replaces the list of data disks that are mounted.
func (s *System) ChangeMounts(f func([]disk.Mount) []disk.Mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts = f(s.mounts)
	s.mountsChanged()
}

// mountsChanged renews the table of all file systems. s.mu must be held.
func (s *System) mountsChanged() {
	all := slices.Concat([]disk.Mount{{At: "/", Disk: s.Config.Disk}}, s.volatile, s.mounts)
	s.table.Set(all)
	s.putMounts()
}

// putMounts writes the kernel's list of mounts. s.mu must be held.
func (s *System) putMounts() {
	mounts, info := "", ""
	for i, m := range append([][2]string{{"/dev/sda", "/"}}, s.devices()...) {
		mounts += m[0] + " " + m[1] + " ext4 rw,relatime 0 0\n"
		info += fmt.Sprintf("%d 1 8:%d / %s rw,relatime - ext4 %s rw\n", 27+i, 16*i, m[1], m[0])
	}
	s.Put("/proc/self/mounts", mounts, 0o444)
	s.Put("/proc/self/mountinfo", info, 0o444)
}

// ShowMounts writes the kernel's list of mounts.
func (s *System) ShowMounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putMounts()
}
