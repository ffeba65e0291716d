package storage

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// fstabLine is a line of /etc/fstab, of which systemd's generator makes a mount unit.
type fstabLine struct {
	device, at string
	options    []string
}

// fstab are the lines that name data disks.
func fstab(s *machine.System) []fstabLine {
	data, _ := s.Root().ReadFile("/etc/fstab")
	var out []fstabLine
	for _, line := range disk.Lines(data) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || !strings.HasPrefix(f[1], "/") || f[1] == "/" {
			continue
		}
		out = append(out, fstabLine{f[0], f[1], strings.Split(strings.Join(f[3:min(4, len(f))], ""), ",")})
	}
	return out
}

func fstabOf(s *machine.System, at string) (fstabLine, bool) {
	all := fstab(s)
	if i := slices.IndexFunc(all, func(l fstabLine) bool { return l.at == at }); i >= 0 {
		return all[i], true
	}
	return fstabLine{}, false
}

func (l fstabLine) has(option string) bool { return slices.Contains(l.options, option) }

// values are those of an option that may be given more than once.
func (l fstabLine) values(option string) []string {
	var out []string
	for _, o := range l.options {
		if value, ok := strings.CutPrefix(o, option+"="); ok {
			out = append(out, value)
		}
	}
	return out
}

// alone reports whether a line is mounted at boot though no unit asks for it. One that
// says who wants or requires it has no other dependencies (systemd.mount(5), fstab).
func (l fstabLine) alone() bool {
	wanted, required := l.values("x-systemd.wanted-by"), l.values("x-systemd.required-by")
	return !l.has("noauto") && (slices.Contains(wanted, "local-fs.target") || len(wanted)+len(required) == 0)
}

// unitName is the mount unit's name.
func (l fstabLine) unitName() string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(l.at, "/"), "-", `\x2d`), "/", "-") + ".mount"
}

// MountFstab mounts the lines with nofail, or those without. Those without are there
// before anything else starts; the others come when they come.
func MountFstab(s *machine.System, nofail bool) {
	for _, l := range fstab(s) {
		if l.has("nofail") != nofail || !l.alone() || isMounted(s, l.at) {
			continue
		}
		if err := Mount(s, l.device, l.at); err != nil {
			s.Log(l.unitName(), "Dependency failed for %s - %s.", l.unitName(), l.at)
		}
	}
}

func isMounted(s *machine.System, at string) bool {
	return slices.ContainsFunc(s.MountedDisks(), func(m [2]string) bool { return m[1] == at })
}

// requiredBy reports whether a unit cannot start without the mount: the line says so, or
// the unit does, which names the paths that it needs.
func (l fstabLine) requiredBy(name string, needs []string) bool {
	if slices.Contains(l.values("x-systemd.required-by"), name) {
		return true
	}
	return slices.ContainsFunc(needs, func(path string) bool {
		return path == l.at || strings.HasPrefix(path, l.at+"/")
	})
}

// deviceTimeout is how long systemd waits for a disk to show itself
// (systemd-system.conf(5), DefaultDeviceTimeoutSec).
const deviceTimeout = 90 * time.Second

// MountFor mounts what a unit requires, and reports whether it is all there. A mount that
// only names the unit in x-systemd.before= is waited for, and not needed.
func MountFor(ctx context.Context, s *machine.System, name string, needs []string) bool {
	for _, l := range fstab(s) {
		required := l.requiredBy(name, needs)
		if !required && (!l.alone() || !slices.Contains(l.values("x-systemd.before"), name)) {
			continue
		}
		if !mountInTime(ctx, s, l) && required {
			return false
		}
	}
	return true
}

// mountInTime waits for a line's disk.
func mountInTime(ctx context.Context, s *machine.System, l fstabLine) bool {
	limit := deviceTimeout
	for _, v := range l.values("x-systemd.device-timeout") {
		if d, err := machine.Seconds(strings.Replace(v, "min", "m", 1)); err == nil {
			limit = d
		}
	}
	for waited := time.Duration(0); !isMounted(s, l.at); waited += time.Second {
		_, _, err := Find(s, l.device)
		switch {
		case err == nil && Mount(s, l.device, l.at) == nil:
		case err == nil || waited >= limit:
			s.Log(l.unitName(), "Dependency failed for %s - %s.", l.unitName(), l.at)
			return false
		case !s.Pause(ctx, time.Second):
			return false
		}
	}
	return true
}

// lostUnits are the units that required a mount whose disk has gone: systemd stops the mount,
// and them with it.
func lostUnits(s *machine.System, was [][2]string) []string {
	var out []string
	for _, m := range was {
		if isMounted(s, m[1]) {
			continue
		}
		if l, ok := fstabOf(s, m[1]); ok {
			out = append(out, l.values("x-systemd.required-by")...)
		}
	}
	return out
}
