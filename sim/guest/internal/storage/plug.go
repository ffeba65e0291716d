package storage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Replug is told that a machine's disks have changed, which were mounted so before, and
// returns the units that have lost what they require.
func Replug(s *machine.System, was [][2]string) (lost []string) {
	v := s.Root()
	entries, _ := v.ReadDir("/dev/disk/by-id")
	for _, e := range entries {
		_ = v.Remove("/dev/disk/by-id/" + e.Name())
	}
	DeviceFiles(s)
	var there []*disk.Disk
	for i := range s.Disks() {
		there = append(there, s.Content(i))
	}
	s.ChangeMounts(func(all []disk.Mount) []disk.Mount {
		return slices.DeleteFunc(all, func(mounted disk.Mount) bool { return !slices.Contains(there, mounted.Disk) })
	})
	return lostUnits(s, was)
}

// DeviceFiles are what /dev has of the disks.
func DeviceFiles(s *machine.System) {
	v := s.Root()
	for i, d := range s.Disks() {
		_ = v.Device("/dev/"+machine.DiskName(i), 0o660)
		for _, name := range d.Links {
			_ = v.MkdirAll("/dev/disk/by-id", 0o755)
			_ = v.Symlink("../../"+machine.DiskName(i), "/dev/disk/by-id/"+name)
		}
	}
}

// fsBlock is the size of a file system's blocks.
const fsBlock = 4096

// fsBlocks is how large the file system on a disk is: as large as the disk was when it
// was made, or grown.
func fsBlocks(s *machine.System, i int) int64 {
	mark, _ := s.Content(i).ReadFile(disk.Mark)
	if n, err := strconv.ParseInt(disk.Value(mark, "blocks"), 10, 64); err == nil {
		return n
	}
	return s.Disks()[i].Size / fsBlock
}

// readBlocks is how large the file system is by what is read from the disk. XFS does not
// write through the block device's cache: until that is flushed one reads what was there
// when it was read first.
func readBlocks(s *machine.System, i int) int64 {
	if n, ok := caches(s).read(s.Content(i)); ok {
		return n
	}
	return fsBlocks(s, i)
}

// runXFSInfo is xfs_info of a mounted file system, which asks the file system itself.
func runXFSInfo(_ context.Context, p *machine.Proc) int {
	at := p.Abs(p.Args[len(p.Args)-1])
	for _, m := range p.Sys.MountedDisks() {
		i, _, err := Find(p.Sys, m[0])
		if err != nil || m[1] != at || fsType(p.Sys, i) != "xfs" {
			continue
		}
		p.Printf("meta-data=%-22s isize=512    agcount=4, agsize=%d blks\n", m[0], fsBlocks(p.Sys, i)/4)
		p.Printf("data     =%-22s bsize=%-6d blocks=%d, imaxpct=25\n", "", fsBlock, fsBlocks(p.Sys, i))
		p.Printf("log      =%-22s bsize=%-6d blocks=16384, version=2\n", "internal log", fsBlock)
		return 0
	}
	return p.Fail("%s: No such file or directory", p.Args[len(p.Args)-1])
}

// runGrow is resize2fs, of a device, and xfs_growfs, of where it is mounted.
func runGrow(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 || p.User.UID != 0 {
		return p.Fail("Permission denied")
	}
	name := p.Abs(p.Args[1])
	for _, m := range p.Sys.MountedDisks() {
		if m[1] == name {
			name = m[0]
		}
	}
	i, data, err := Find(p.Sys, name)
	if err != nil || i == 0 {
		return boolCode(err != nil)
	}
	mark, err := data.ReadFile(disk.Mark)
	if err != nil {
		return p.Fail("Bad magic number in super-block while trying to open %s", name)
	}
	if disk.Value(mark, "type") == "xfs" {
		caches(p.Sys).keep(data, readBlocks(p.Sys, i))
	}
	_ = data.WriteFile(disk.Mark, []byte(fmt.Sprintf("type: %s\nlabel: %s\nuuid: %s\nblocks: %d\n",
		disk.Value(mark, "type"), disk.Value(mark, "label"), disk.Value(mark, "uuid"), p.Sys.Disks()[i].Size/fsBlock)), 0o600)
	p.Sys.RecordChange(p.Name() + " " + p.Args[1])
	return 0
}

func boolCode(bad bool) int {
	if bad {
		return 1
	}
	return 0
}

// runBlockdev is blockdev --getsize64 and --flushbufs.
func runBlockdev(_ context.Context, p *machine.Proc) int {
	for i := range p.Sys.Disks() {
		if at, err := p.FS.Resolve(p.Abs(p.Args[len(p.Args)-1]), true); err == nil && at == "/dev/"+machine.DiskName(i) {
			if slices.Contains(p.Args, "--flushbufs") {
				caches(p.Sys).flush(p.Sys.Content(i))
				return 0
			}
			p.Printf("%d\n", p.Sys.Disks()[i].Size)
			return 0
		}
	}
	return p.Fail("cannot open %s: No such file or directory", p.Args[len(p.Args)-1])
}

// cache is what is read of disks before it is flushed.
type cache struct {
	mu     sync.Mutex
	blocks map[*disk.Disk]int64 // of a grown XFS
}

func caches(s *machine.System) *cache { return machine.StateOf[cache](s) }

func (c *cache) read(d *disk.Disk) (blocks int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	blocks, ok = c.blocks[d]
	return blocks, ok
}

func (c *cache) keep(d *disk.Disk, blocks int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks == nil {
		c.blocks = map[*disk.Disk]int64{}
	}
	c.blocks[d] = blocks
}

func (c *cache) flush(d *disk.Disk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.blocks, d)
}
