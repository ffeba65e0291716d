package programs

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

func sum(p *machine.Proc, data []byte) string {
	if p.Name() == "md5sum" {
		return fmt.Sprintf("%x", md5.Sum(data))
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func runSum(_ context.Context, p *machine.Proc) int {
	opts, names := getopt.Parse(p.Args[1:])
	if !getopt.Has(opts, "c", "check") {
		return each(p, names, func(name string, data []byte) { p.Printf("%s  %s\n", sum(p, data), name) })
	}
	bad, checked := 0, 0
	code := each(p, names, func(_ string, data []byte) {
		for _, line := range disk.Lines(data) {
			want, name, ok := strings.Cut(line, " ")
			name = strings.TrimLeft(name, " *")
			if !ok || name == "" {
				continue
			}
			content, err := input(p, name)
			switch {
			case err != nil && getopt.Has(opts, "ignore-missing"):
				continue
			case err != nil:
				_ = p.Fail("%s: %s", name, disk.Strerror(err))
				p.Printf("%s: FAILED open or read\n", name)
				bad++
			case sum(p, content) != strings.ToLower(want):
				bad++
				if !getopt.Has(opts, "status") {
					p.Printf("%s: FAILED\n", name)
				}
			case !getopt.Has(opts, "status", "quiet"):
				p.Printf("%s: OK\n", name)
			}
			checked++
		}
	})
	switch {
	case checked == 0:
		return p.Fail("no file was verified")
	case bad > 0 && !getopt.Has(opts, "status"):
		return p.Fail("WARNING: %d computed checksum did NOT match", bad)
	case bad > 0:
		return 1
	}
	return code
}
