package programs

import (
	"context"
	"math/rand/v2"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func runTruncate(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "s", "size")
	if size := getopt.Last(opts, "s", "size"); size != "0" {
		return p.Fail("only -s 0 is simulated, not %q", size)
	}
	code := 0
	for _, name := range names {
		if _, err := p.FS.Open(p.Abs(name), 0o666, true); err != nil {
			code = p.Fail("cannot open '%s' for writing: %s", name, disk.Strerror(err))
		}
	}
	return code
}

func runMktemp(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:], "p", "suffix", "tmpdir")
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(names) > 0 {
		template = names[0]
		if dir := getopt.Last(opts, "p", "tmpdir"); dir != "" {
			template = path.Join(dir, template)
		} else if getopt.Has(opts, "t") {
			template = path.Join("/tmp", template)
		}
	}
	stem := strings.TrimRight(template, "X")
	if len(template)-len(stem) < 3 {
		return p.Fail("too few X's in template '%s'", template)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range 100 {
		name := stem
		for range len(template) - len(stem) {
			name += string(letters[rand.IntN(len(letters))])
		}
		if _, err := p.FS.Lstat(p.Abs(name)); err == nil {
			continue
		}
		var err error
		if getopt.Has(opts, "d", "directory") {
			err = p.FS.Mkdir(p.Abs(name), 0o700)
		} else {
			_, err = p.FS.Open(p.Abs(name), 0o600, true)
		}
		if err != nil {
			return p.Fail("failed to create file via template '%s': %s", template, disk.Strerror(err))
		}
		p.Printf("%s\n", name)
		return 0
	}
	return p.Fail("no free name for template '%s'", template)
}
