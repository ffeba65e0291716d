package guest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// SetDisks changes what disks a machine has: one is plugged in or pulled out, or one
// grows. What was mounted from a disk that is gone is gone too.
func (m *Machine) SetDisks(disks []BlockDevice) {
	m.mu.Lock()
	m.cfg.Disks = slices.Clone(disks)
	m.mu.Unlock()
	s := m.system()
	if s == nil {
		return
	}
	v := s.root()
	entries, _ := v.readDir("/dev/disk/by-id")
	for _, e := range entries {
		_ = v.remove("/dev/disk/by-id/" + e.name)
	}
	s.diskFiles()
	var there []*Disk
	for i := range disks {
		there = append(there, m.content(i))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mounts = slices.DeleteFunc(s.mounts, func(mounted mount) bool { return !slices.Contains(there, mounted.disk) })
	s.mountsChanged()
}

// disks are the machine's disks now.
func (m *Machine) disks() []BlockDevice {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cfg.Disks
}

func (s *system) diskFiles() {
	v := s.root()
	for i, d := range s.m.disks() {
		disk, in := v.at("/dev/" + diskName(i))
		_ = disk.set(in, &inode{mode: fs.ModeDevice | 0o660})
		if d.Serial != "" {
			_ = v.mkdirAll("/dev/disk/by-id", 0o755)
			for _, name := range []string{"scsi-0QEMU_QEMU_HARDDISK_" + d.Serial, "virtio-" + d.Serial} {
				_ = v.symlink("../../"+diskName(i), "/dev/disk/by-id/"+name)
			}
		}
	}
}

// fsBlock is the size of a file system's blocks.
const fsBlock = 4096

// fsBlocks is how large the file system on a disk is: as large as the disk was when it
// was made, or grown.
func (s *system) fsBlocks(i int) int64 {
	mark, _ := s.m.content(i).ReadFile(fsMark)
	if n, err := strconv.ParseInt(programLine(mark, "blocks"), 10, 64); err == nil {
		return n
	}
	return s.m.disks()[i].Size / fsBlock
}

// runGrow is resize2fs, of a device, and xfs_growfs, of where it is mounted.
func runGrow(_ context.Context, p *proc) int {
	if len(p.args) < 2 || p.user.uid != 0 {
		return p.fail("Permission denied")
	}
	name := p.abs(p.args[1])
	for _, m := range p.sys.mounted() {
		if m[1] == name {
			name = m[0]
		}
	}
	i, disk, err := p.sys.device(name)
	if err != nil || i == 0 {
		return boolCode(err != nil)
	}
	mark, err := disk.ReadFile(fsMark)
	if err != nil {
		return p.fail("Bad magic number in super-block while trying to open %s", name)
	}
	_ = disk.WriteFile(fsMark, []byte(fmt.Sprintf("type: %s\nlabel: %s\nuuid: %s\nblocks: %d\n",
		programLine(mark, "type"), programLine(mark, "label"), programLine(mark, "uuid"), p.sys.m.disks()[i].Size/fsBlock)), 0o600)
	p.sys.m.mutated(p.name() + " " + p.args[1])
	return 0
}

func boolCode(bad bool) int {
	if bad {
		return 1
	}
	return 0
}

// runBlockdev is blockdev --getsize64.
func runBlockdev(_ context.Context, p *proc) int {
	for i := range p.sys.m.disks() {
		if at, err := p.fs.resolve(p.abs(p.args[len(p.args)-1]), true); err == nil && at == "/dev/"+diskName(i) {
			p.printf("%d\n", p.sys.m.disks()[i].Size)
			return 0
		}
	}
	return p.fail("cannot open %s: No such file or directory", p.args[len(p.args)-1])
}
