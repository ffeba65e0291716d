package boot

import (
	"context"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of the kernel's settings.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{"sysctl": runSysctl}
}

func runSysctl(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "p", "load")
	show := func(key, value string) {
		switch {
		case getopt.Has(opts, "q", "quiet"):
		case getopt.Has(opts, "n", "values"):
			p.Printf("%s\n", value)
		default:
			p.Printf("%s = %s\n", key, value)
		}
	}
	if getopt.Has(opts, "system") || getopt.Has(opts, "p", "load") {
		if p.User.UID != 0 {
			return p.Fail("permission denied")
		}
		if file := getopt.Last(opts, "p", "load"); file != "" {
			data, err := p.FS.ReadFile(p.Abs(file))
			if err != nil {
				return p.Fail("cannot open \"%s\": %s", file, disk.Strerror(err))
			}
			sysctlLines(p.Sys, data)
			return 0
		}
		applySysctl(p.Sys)
		return 0
	}
	code := 0
	for _, a := range args {
		key, value, set := strings.Cut(a, "=")
		if set || getopt.Has(opts, "w") && set {
			if p.User.UID != 0 {
				code = p.Fail("permission denied on key \"%s\"", key)
				continue
			}
			p.Sys.Put(sysctlPath(key), value+"\n", 0o644)
			show(key, value)
			continue
		}
		data, err := p.FS.ReadFile(sysctlPath(key))
		if err != nil {
			code = p.Fail("cannot stat %s: No such file or directory", sysctlPath(key))
			continue
		}
		show(key, strings.TrimSpace(string(data)))
	}
	return code
}

// applySysctl is systemd-sysctl.
func applySysctl(s *machine.System) {
	v := s.Root()
	entries, _ := v.ReadDir("/etc/sysctl.d")
	files := []string{"/etc/sysctl.conf"}
	for _, e := range entries {
		files = append(files, "/etc/sysctl.d/"+e.Name())
	}
	for _, f := range files {
		data, _ := v.ReadFile(f)
		sysctlLines(s, data)
	}
}

func sysctlLines(s *machine.System, data []byte) {
	for _, line := range disk.Lines(data) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && !strings.HasPrefix(key, "#") {
			s.Put(sysctlPath(key), strings.TrimSpace(value)+"\n", 0o644)
		}
	}
}

func sysctlPath(key string) string {
	return path.Join("/proc/sys", strings.ReplaceAll(strings.TrimPrefix(key, "-"), ".", "/"))
}
