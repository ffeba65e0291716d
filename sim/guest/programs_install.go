package guest

import (
	"context"
	"path"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// runInstall is coreutils' install: copies with a mode and owner, or -d.
func runInstall(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "m", "mode", "o", "owner", "g", "group", "t")
	mode := last(opts, "m", "mode")
	if mode == "" {
		mode = "0755"
	}
	spec := last(opts, "o", "owner")
	if g := last(opts, "g", "group"); g != "" {
		spec += ":" + g
	}
	finish := func(name string) error {
		if err := p.setMode(mode, name); err != nil || spec == "" {
			return err
		}
		uid, gid, err := disk.OwnerOf(p.fs, spec)
		if err != nil {
			return err
		}
		return p.fs.Chown(name, uid, gid)
	}
	if has(opts, "d", "directory") {
		for _, name := range names {
			err := p.fs.MkdirAll(p.abs(name), 0o755)
			if err == nil {
				err = finish(p.abs(name))
			}
			if err != nil {
				return p.fail("cannot create directory '%s': %s", name, disk.Strerror(err))
			}
		}
		return 0
	}
	if dir := last(opts, "t"); dir != "" {
		names = append(names, dir)
	}
	if len(names) < 2 {
		return p.fail("missing destination file operand")
	}
	to := names[len(names)-1]
	for _, from := range names[:len(names)-1] {
		dest := p.into(to, from)
		data, err := p.input(from)
		if err == nil && has(opts, "D") {
			err = p.fs.MkdirAll(path.Dir(dest), 0o755)
		}
		if err == nil {
			_ = p.fs.Remove(dest) // install never writes into a file that is in use
			err = p.fs.WriteFile(dest, data, 0o600)
		}
		if err == nil {
			err = finish(dest)
		}
		if err != nil {
			return p.fail("cannot create regular file '%s': %s", dest, disk.Strerror(err))
		}
	}
	return 0
}
