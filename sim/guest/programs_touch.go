package guest

import (
	"context"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func runTouch(_ context.Context, p *proc) int {
	_, names := flags(p.args[1:], "d", "r", "t")
	code := 0
	for _, name := range names {
		if _, err := p.fs.Open(p.abs(name), 0o666, false); err != nil {
			code = p.fail("cannot touch '%s': %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runTruncate(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "s", "size")
	if size := last(opts, "s", "size"); size != "0" {
		return p.fail("only -s 0 is simulated, not %q", size)
	}
	code := 0
	for _, name := range names {
		if _, err := p.fs.Open(p.abs(name), 0o666, true); err != nil {
			code = p.fail("cannot open '%s' for writing: %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runMktemp(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "p", "suffix", "tmpdir")
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(names) > 0 {
		template = names[0]
		if dir := last(opts, "p", "tmpdir"); dir != "" {
			template = path.Join(dir, template)
		} else if has(opts, "t") {
			template = path.Join("/tmp", template)
		}
	}
	stem := strings.TrimRight(template, "X")
	if len(template)-len(stem) < 3 {
		return p.fail("too few X's in template '%s'", template)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range 100 {
		name := stem
		for range len(template) - len(stem) {
			name += string(letters[rand.IntN(len(letters))])
		}
		if _, err := p.fs.Lstat(p.abs(name)); err == nil {
			continue
		}
		var err error
		if has(opts, "d", "directory") {
			err = p.fs.Mkdir(p.abs(name), 0o700)
		} else {
			_, err = p.fs.Open(p.abs(name), 0o600, true)
		}
		if err != nil {
			return p.fail("failed to create file via template '%s': %s", template, disk.Strerror(err))
		}
		p.printf("%s\n", name)
		return 0
	}
	return p.fail("no free name for template '%s'", template)
}
