package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of disks and file systems.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"lsblk":     runLsblk,
		"blkid":     runBlkid,
		"blockdev":  runBlockdev,
		"mkfs.ext4": runMkfs, "mkfs.xfs": runMkfs,
		"resize2fs": runGrow, "xfs_growfs": runGrow,
		"xfs_info": runXFSInfo,
		"mount":    runMount, "umount": runMount,
		"findmnt": runFindmnt,
		"df":      runDf,
	}
}

// Find finds a block device by its path, a link to it, LABEL= or UUID=.
func Find(s *machine.System, name string) (index int, data *disk.Disk, err error) {
	v := s.Root()
	for i := range s.Disks() {
		data := s.Content(i)
		if label, ok := strings.CutPrefix(name, "LABEL="); ok {
			if mark, err := data.ReadFile(disk.Mark); err == nil && disk.Value(mark, "label") == label {
				return i, data, nil
			}
			continue
		}
		if uuid, ok := strings.CutPrefix(name, "UUID="); ok {
			if mark, err := data.ReadFile(disk.Mark); err == nil && disk.Value(mark, "uuid") == uuid {
				return i, data, nil
			}
			continue
		}
		at, err := v.Resolve(name, true)
		if err == nil && at == "/dev/"+machine.DiskName(i) {
			return i, data, nil
		}
	}
	return 0, nil, fmt.Errorf("%s: no such device", name)
}

func newUUID() string {
	id := machine.HexID(16)
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// Mkfs formats a data disk.
func Mkfs(s *machine.System, device, kind, label string) error {
	i, data, err := Find(s, device)
	if err != nil {
		return err
	}
	if i == 0 {
		return errors.New(device + " contains the root file system; will not make a filesystem here!")
	}
	busy := slices.ContainsFunc(s.MountedDisks(), func(m [2]string) bool { return m[0] == "/dev/"+machine.DiskName(i) })
	caches(s).flush(data)
	if busy {
		return errors.New(device + " is mounted; will not make a filesystem here!")
	}
	fresh := disk.New()
	_ = fresh.WriteFile(disk.Mark, []byte("type: "+kind+"\nlabel: "+label+"\nuuid: "+newUUID()+"\nblocks: "+fmt.Sprint(s.Disks()[i].Size/fsBlock)+"\n"), 0o600)
	disk.Replace(data, fresh)
	return nil
}

// Mount mounts a data disk.
func Mount(s *machine.System, device, at string) error {
	_, data, err := Find(s, device)
	if err != nil {
		return fmt.Errorf("special device %s does not exist", device)
	}
	if !data.Exists(disk.Mark) {
		return fmt.Errorf("wrong fs type, bad option, bad superblock on %s", device)
	}
	if err := s.Root().MkdirAll(at, 0o755); err != nil {
		return err
	}
	s.ChangeMounts(func(all []disk.Mount) []disk.Mount {
		if slices.ContainsFunc(all, func(m disk.Mount) bool { return m.At == at }) {
			return all
		}
		return append(all, disk.Mount{At: path.Clean(at), Disk: data})
	})
	return nil
}

func runMkfs(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "L", "t", "m")
	if len(args) == 0 || p.User.UID != 0 {
		return p.Fail("Permission denied")
	}
	if err := Mkfs(p.Sys, p.Abs(args[0]), strings.TrimPrefix(p.Name(), "mkfs."), getopt.Last(opts, "L")); err != nil {
		return p.Fail("%v", err)
	}
	p.Sys.RecordChange("mkfs " + args[0])
	return 0
}

func runMount(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "t", "o")
	if p.User.UID != 0 && len(args) > 0 {
		return p.Fail("only root can do that")
	}
	switch {
	case p.Name() == "umount":
		return umount(p, args)
	case getopt.Has(opts, "a"):
		MountFstab(p.Sys, false)
		MountFstab(p.Sys, true)
		return 0
	case len(args) == 1:
		line, ok := fstabOf(p.Sys, p.Abs(args[0]))
		if !ok {
			_ = p.Fail("%s: can't find in /etc/fstab.", args[0])
			return 1
		}
		args = []string{line.device, line.at}
		fallthrough
	case len(args) == 2:
		device := args[0]
		if strings.HasPrefix(device, "/") {
			device = p.Abs(device)
		}
		if err := Mount(p.Sys, device, p.Abs(args[1])); err != nil {
			_ = p.Fail("%s: %v", args[1], err)
			return 32
		}
		p.Sys.RecordChange("mount " + args[1])
		return 0
	}
	p.Printf("/dev/sda on / type ext4 (rw,relatime)\n")
	for _, m := range p.Sys.MountedDisks() {
		p.Printf("%s on %s type ext4 (rw,relatime)\n", m[0], m[1])
	}
	return 0
}

func umount(p *machine.Proc, args []string) int {
	code := 0
	p.Sys.ChangeMounts(func(all []disk.Mount) []disk.Mount {
		for _, at := range args {
			before := len(all)
			all = slices.DeleteFunc(all, func(m disk.Mount) bool { return m.At == p.Abs(at) })
			if len(all) == before {
				code = 32
				_ = p.Fail("%s: not mounted.", at)
			}
		}
		return all
	})
	if len(args) > 0 && code == 0 {
		p.Sys.RecordChange("umount " + strings.Join(args, " "))
	}
	return code
}

func runFindmnt(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "o", "output", "T", "S", "t")
	all := append([][2]string{{"/dev/sda", "/"}}, p.Sys.MountedDisks()...)
	if at := getopt.Last(opts, "T"); at != "" {
		args = []string{at}
	}
	code := 1
	for _, m := range all {
		if len(args) > 0 && m[1] != p.Abs(args[0]) && m[0] != args[0] {
			continue
		}
		code = 0
		switch strings.ToUpper(getopt.Last(opts, "o", "output")) {
		case "SOURCE":
			p.Printf("%s\n", m[0])
		case "TARGET":
			p.Printf("%s\n", m[1])
		case "FSTYPE":
			p.Printf("ext4\n")
		default:
			p.Printf("%s %s ext4 rw,relatime\n", m[1], m[0])
		}
	}
	return code
}

func runLsblk(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "o", "output")
	columns := strings.Split(strings.ToUpper(getopt.Last(opts, "o", "output")), ",")
	if columns[0] == "" {
		columns = []string{"NAME", "SIZE", "TYPE", "MOUNTPOINTS"}
	}
	if !getopt.Has(opts, "n", "noheadings") {
		p.Printf("%s\n", strings.Join(columns, " "))
	}
	mounted := map[string]string{"/dev/sda": "/"}
	for _, m := range p.Sys.MountedDisks() {
		mounted[m[0]] = m[1]
	}
	for i, d := range p.Sys.Disks() {
		name := machine.DiskName(i)
		size := fmt.Sprint(d.Size)
		if !getopt.Has(opts, "b", "bytes") {
			size = fmt.Sprintf("%dG", d.Size>>30)
		}
		shown := name
		if getopt.Has(opts, "p", "paths") {
			shown = "/dev/" + name
		}
		value := map[string]string{"NAME": shown, "SIZE": size, "TYPE": "disk", "SERIAL": d.Serial, "MOUNTPOINT": mounted["/dev/"+name],
			"MOUNTPOINTS": mounted["/dev/"+name], "PATH": "/dev/" + name, "FSTYPE": fsType(p.Sys, i)}
		var out []string
		for _, c := range columns {
			out = append(out, value[c])
		}
		p.Printf("%s\n", strings.Join(out, " "))
	}
	return 0
}

func fsType(s *machine.System, i int) string {
	if i == 0 {
		return "ext4"
	}
	mark, err := s.Content(i).ReadFile(disk.Mark)
	if err != nil {
		return ""
	}
	return disk.Value(mark, "type")
}

func fsUUID(s *machine.System, i int) string {
	mark, _ := s.Content(i).ReadFile(disk.Mark)
	return disk.Value(mark, "uuid")
}

func runBlkid(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "s", "o", "L", "U")
	code := 2
	for i := range p.Sys.Disks() {
		dev := "/dev/" + machine.DiskName(i)
		if len(args) > 0 {
			if at, err := p.FS.Resolve(p.Abs(args[0]), true); err != nil || at != dev {
				continue
			}
		}
		kind := fsType(p.Sys, i)
		if kind == "" {
			continue
		}
		code = 0
		if getopt.Last(opts, "o") == "value" {
			values := map[string]string{"TYPE": kind, "UUID": fsUUID(p.Sys, i), "FSLASTBLOCK": fmt.Sprint(readBlocks(p.Sys, i)), "FSBLOCKSIZE": fmt.Sprint(fsBlock)}
			if value := values[cmp.Or(getopt.Last(opts, "s"), "TYPE")]; value != "" {
				p.Printf("%s\n", value)
			}
			continue
		}
		p.Printf("%s: TYPE=%q\n", dev, kind)
	}
	return code
}

func runDf(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:], "t", "output", "B", "x")
	var size int64 = 10 << 30
	if len(p.Sys.Disks()) > 0 {
		size = p.Sys.Disks()[0].Size
	}
	unit := int64(1 << 10)
	if getopt.Has(opts, "B") && getopt.Last(opts, "B") == "1" {
		unit = 1
	}
	percent := int64(20)
	if !getopt.Has(opts, "i") && p.Sys.Faulty(func(f machine.Faults) bool { return f.DiskFull }) {
		percent = 100
	}
	size /= unit
	p.Printf("Filesystem 1K-blocks Used Available Use%% Mounted on\n/dev/sda %d %d %d %d%% /\n", size, size*percent/100, size-size*percent/100, percent)
	return 0
}
