package programs

import (
	"context"
	"path"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runInstall is coreutils' install: copies with a mode and owner, or -d.
func runInstall(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "m", "mode", "o", "owner", "g", "group", "t")
	mode := getopt.Last(opts, "m", "mode")
	if mode == "" {
		mode = "0755"
	}
	spec := getopt.Last(opts, "o", "owner")
	if g := getopt.Last(opts, "g", "group"); g != "" {
		spec += ":" + g
	}
	finish := func(name string) error {
		if err := setMode(p, mode, name); err != nil || spec == "" {
			return err
		}
		uid, gid, err := disk.OwnerOf(p.FS, spec)
		if err != nil {
			return err
		}
		return p.FS.Chown(name, uid, gid)
	}
	if getopt.Has(opts, "d", "directory") {
		for _, name := range names {
			err := p.FS.MkdirAll(p.Abs(name), 0o755)
			if err == nil {
				err = finish(p.Abs(name))
			}
			if err != nil {
				return p.Fail("cannot create directory '%s': %s", name, disk.Strerror(err))
			}
		}
		return 0
	}
	if dir := getopt.Last(opts, "t"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.Fail("missing destination file operand")
	}
	to := names[len(names)-1]
	for _, from := range names[:len(names)-1] {
		dest := into(p, to, from)
		data, err := input(p, from)
		if err == nil && getopt.Has(opts, "D") {
			err = p.FS.MkdirAll(path.Dir(dest), 0o755)
		}
		if err == nil {
			_ = p.FS.Remove(dest) // install never writes into a file that is in use
			err = p.FS.WriteFile(dest, data, 0o600)
		}
		if err == nil {
			err = finish(dest)
		}
		if err != nil {
			return p.Fail("cannot create regular file '%s': %s", dest, disk.Strerror(err))
		}
	}
	return 0
}
