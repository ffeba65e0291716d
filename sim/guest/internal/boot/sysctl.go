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
	opts, _ := getopt.Parse(p.Args[1:])
	if !getopt.Has(opts, "system") {
		return p.Fail("only --system is simulated")
	}
	if p.User.UID != 0 {
		return p.Fail("permission denied")
	}
	applySysctl(p.Sys)
	return 0
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
