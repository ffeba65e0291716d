package guest

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

func runBase64(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "w")
	return p.each(names, func(_ string, data []byte) {
		if !has(opts, "d", "decode") {
			p.printf("%s\n", base64.StdEncoding.EncodeToString(data))
			return
		}
		out, _ := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(data), nil)))
		_, _ = p.stdout.Write(out)
	})
}

func (p *proc) sum(data []byte) string {
	if p.name() == "md5sum" {
		return fmt.Sprintf("%x", md5.Sum(data))
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func runSum(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:])
	if !has(opts, "c", "check") {
		return p.each(names, func(name string, data []byte) { p.printf("%s  %s\n", p.sum(data), name) })
	}
	bad, checked := 0, 0
	code := p.each(names, func(_ string, data []byte) {
		for _, line := range disk.Lines(data) {
			want, name, ok := strings.Cut(line, " ")
			name = strings.TrimLeft(name, " *")
			if !ok || name == "" {
				continue
			}
			content, err := p.input(name)
			switch {
			case err != nil && has(opts, "ignore-missing"):
				continue
			case err != nil:
				_ = p.fail("%s: %s", name, disk.Strerror(err))
				p.printf("%s: FAILED open or read\n", name)
				bad++
			case p.sum(content) != strings.ToLower(want):
				bad++
				if !has(opts, "status") {
					p.printf("%s: FAILED\n", name)
				}
			case !has(opts, "status", "quiet"):
				p.printf("%s: OK\n", name)
			}
			checked++
		}
	})
	switch {
	case checked == 0:
		return p.fail("no file was verified")
	case bad > 0 && !has(opts, "status"):
		return p.fail("WARNING: %d computed checksum did NOT match", bad)
	case bad > 0:
		return 1
	}
	return code
}
