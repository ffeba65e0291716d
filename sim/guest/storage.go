package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// device finds a block device by its path, a link to it, LABEL= or UUID=.
func (s *system) device(name string) (index int, data *disk.Disk, err error) {
	v := s.root()
	for i := range s.disks() {
		data := s.content(i)
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
		if err == nil && at == "/dev/"+diskName(i) {
			return i, data, nil
		}
	}
	return 0, nil, fmt.Errorf("%s: no such device", name)
}

func newUUID() string {
	id := hexID(16)
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// mkfs formats a data disk.
func (s *system) mkfs(device, kind, label string) error {
	i, data, err := s.device(device)
	if err != nil {
		return err
	}
	if i == 0 {
		return errors.New(device + " contains the root file system; will not make a filesystem here!")
	}
	busy := slices.ContainsFunc(s.mounted(), func(m [2]string) bool { return m[0] == "/dev/"+diskName(i) })
	caches(s).flush(data)
	if busy {
		return errors.New(device + " is mounted; will not make a filesystem here!")
	}
	fresh := disk.New()
	_ = fresh.WriteFile(disk.Mark, []byte("type: "+kind+"\nlabel: "+label+"\nuuid: "+newUUID()+"\nblocks: "+fmt.Sprint(s.disks()[i].Size/fsBlock)+"\n"), 0o600)
	disk.Replace(data, fresh)
	return nil
}

func (s *system) mount(device, at string) error {
	_, data, err := s.device(device)
	if err != nil {
		return fmt.Errorf("special device %s does not exist", device)
	}
	if !data.Exists(disk.Mark) {
		return fmt.Errorf("wrong fs type, bad option, bad superblock on %s", device)
	}
	if err := s.root().MkdirAll(at, 0o755); err != nil {
		return err
	}
	s.changeMounts(func(all []disk.Mount) []disk.Mount {
		if slices.ContainsFunc(all, func(m disk.Mount) bool { return m.At == at }) {
			return all
		}
		return append(all, disk.Mount{At: path.Clean(at), Disk: data})
	})
	return nil
}

func runMkfs(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "L", "t", "m")
	if len(args) == 0 || p.user.UID != 0 {
		return p.fail("Permission denied")
	}
	if err := p.sys.mkfs(p.abs(args[0]), strings.TrimPrefix(p.name(), "mkfs."), last(opts, "L")); err != nil {
		return p.fail("%v", err)
	}
	p.sys.mutated("mkfs " + args[0])
	return 0
}

func runMount(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "t", "o")
	if p.user.UID != 0 && len(args) > 0 {
		return p.fail("only root can do that")
	}
	switch {
	case p.name() == "umount":
		return umount(p, args)
	case has(opts, "a"):
		p.sys.mountFstab(false)
		p.sys.mountFstab(true)
		return 0
	case len(args) == 1:
		line, ok := p.sys.fstabOf(p.abs(args[0]))
		if !ok {
			_ = p.fail("%s: can't find in /etc/fstab.", args[0])
			return 1
		}
		args = []string{line.device, line.at}
		fallthrough
	case len(args) == 2:
		device := args[0]
		if strings.HasPrefix(device, "/") {
			device = p.abs(device)
		}
		if err := p.sys.mount(device, p.abs(args[1])); err != nil {
			_ = p.fail("%s: %v", args[1], err)
			return 32
		}
		p.sys.mutated("mount " + args[1])
		return 0
	}
	p.printf("/dev/sda on / type ext4 (rw,relatime)\n")
	for _, m := range p.sys.mounted() {
		p.printf("%s on %s type ext4 (rw,relatime)\n", m[0], m[1])
	}
	return 0
}

func umount(p *proc, args []string) int {
	code := 0
	p.sys.changeMounts(func(all []disk.Mount) []disk.Mount {
		for _, at := range args {
			before := len(all)
			all = slices.DeleteFunc(all, func(m disk.Mount) bool { return m.At == p.abs(at) })
			if len(all) == before {
				code = 32
				_ = p.fail("%s: not mounted.", at)
			}
		}
		return all
	})
	if len(args) > 0 && code == 0 {
		p.sys.mutated("umount " + strings.Join(args, " "))
	}
	return code
}

func runFindmnt(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "o", "output", "T", "S", "t")
	all := append([][2]string{{"/dev/sda", "/"}}, p.sys.mounted()...)
	if at := last(opts, "T"); at != "" {
		args = []string{at}
	}
	code := 1
	for _, m := range all {
		if len(args) > 0 && m[1] != p.abs(args[0]) && m[0] != args[0] {
			continue
		}
		code = 0
		switch strings.ToUpper(last(opts, "o", "output")) {
		case "SOURCE":
			p.printf("%s\n", m[0])
		case "TARGET":
			p.printf("%s\n", m[1])
		case "FSTYPE":
			p.printf("ext4\n")
		default:
			p.printf("%s %s ext4 rw,relatime\n", m[1], m[0])
		}
	}
	return code
}

func runLsblk(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:], "o", "output")
	columns := strings.Split(strings.ToUpper(last(opts, "o", "output")), ",")
	if columns[0] == "" {
		columns = []string{"NAME", "SIZE", "TYPE", "MOUNTPOINTS"}
	}
	if !has(opts, "n", "noheadings") {
		p.printf("%s\n", strings.Join(columns, " "))
	}
	mounted := map[string]string{"/dev/sda": "/"}
	for _, m := range p.sys.mounted() {
		mounted[m[0]] = m[1]
	}
	for i, d := range p.sys.disks() {
		name := diskName(i)
		size := fmt.Sprint(d.Size)
		if !has(opts, "b", "bytes") {
			size = fmt.Sprintf("%dG", d.Size>>30)
		}
		shown := name
		if has(opts, "p", "paths") {
			shown = "/dev/" + name
		}
		value := map[string]string{"NAME": shown, "SIZE": size, "TYPE": "disk", "SERIAL": d.Serial, "MOUNTPOINT": mounted["/dev/"+name],
			"MOUNTPOINTS": mounted["/dev/"+name], "PATH": "/dev/" + name, "FSTYPE": p.sys.fsType(i)}
		var out []string
		for _, c := range columns {
			out = append(out, value[c])
		}
		p.printf("%s\n", strings.Join(out, " "))
	}
	return 0
}

func (s *system) fsType(i int) string {
	if i == 0 {
		return "ext4"
	}
	mark, err := s.content(i).ReadFile(disk.Mark)
	if err != nil {
		return ""
	}
	return disk.Value(mark, "type")
}

func (s *system) fsUUID(i int) string {
	mark, _ := s.content(i).ReadFile(disk.Mark)
	return disk.Value(mark, "uuid")
}

func runBlkid(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "s", "o", "L", "U")
	code := 2
	for i := range p.sys.disks() {
		dev := "/dev/" + diskName(i)
		if len(args) > 0 {
			if at, err := p.fs.Resolve(p.abs(args[0]), true); err != nil || at != dev {
				continue
			}
		}
		kind := p.sys.fsType(i)
		if kind == "" {
			continue
		}
		code = 0
		if last(opts, "o") == "value" {
			values := map[string]string{"TYPE": kind, "UUID": p.sys.fsUUID(i), "FSLASTBLOCK": fmt.Sprint(p.sys.readBlocks(i)), "FSBLOCKSIZE": fmt.Sprint(fsBlock)}
			if value := values[cmp.Or(last(opts, "s"), "TYPE")]; value != "" {
				p.printf("%s\n", value)
			}
			continue
		}
		p.printf("%s: TYPE=%q\n", dev, kind)
	}
	return code
}
