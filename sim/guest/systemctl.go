package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Exit statuses of systemctl, from its manual page.
const (
	exitNotActive = 3
	exitNoUnit    = 4
	exitNotFound  = 5
)

func runSystemctl(ctx context.Context, p *proc) int {
	opts, args := flags(p.args[1:], "p", "property", "t", "type", "state", "n", "o", "lines", "output")
	if len(args) == 0 {
		args = []string{"list-units"}
	}
	verb, names := args[0], args[1:]
	for i := range names {
		names[i] = unitName(names[i])
	}
	if has(opts, "q", "quiet") {
		p.stdout = io.Discard
	}
	switch verb {
	case "is-active", "is-enabled", "is-failed", "status", "show", "list-units", "cat", "is-system-running", "list-unit-files":
		return p.queryUnits(verb, opts, names)
	}
	if p.user.UID != 0 {
		fmt.Fprintf(p.stderr, "Failed to %s: Access denied\n", verb)
		return 1
	}
	switch verb {
	case "daemon-reload", "daemon-reexec", "reset-failed", "preset", "set-default":
		return 0
	case "poweroff", "halt", "reboot":
		p.sys.mutated(verb)
		p.sys.PowerOff(verb == "reboot")
		return 0
	}
	return p.changeUnits(ctx, verb, opts, names)
}

func (p *proc) changeUnits(ctx context.Context, verb string, opts map[string][]string, names []string) int {
	code := 0
	for _, name := range names {
		if err := p.changeUnit(ctx, verb, name, has(opts, "now"), !has(opts, "no-block")); err != nil {
			fmt.Fprintf(p.stderr, "%v\n", err)
			code = 1
			if errors.Is(err, errNoUnit) {
				code = exitNotFound
			}
		}
	}
	return code
}

func (p *proc) changeUnit(ctx context.Context, verb, name string, now, wait bool) error {
	s := p.sys
	if p.line && wait {
		wait = p.wait(ctx, 0) == nil
	}
	start := func() error {
		if st := s.state(name); st.active != "active" && st.active != "activating" {
			s.mutated("unit " + name + " started")
		}
		return s.start(ctx, name, wait)
	}
	stop := func() error {
		if s.state(name).cancel != nil {
			s.mutated("unit " + name + " stopped")
		}
		return s.stop(name)
	}
	switch verb {
	case "start":
		return start()
	case "stop":
		return stop()
	case "restart", "reload-or-restart", "try-restart", "condrestart":
		if strings.Contains(verb, "r") && verb[0] != 'r' && !s.isActive(name) {
			return nil
		}
		if _, err := loadUnit(s.root(), name); err != nil {
			return fmt.Errorf("Failed to restart %s: Unit %s %w.", name, name, errNoUnit)
		}
		if err := stop(); err != nil {
			return err
		}
		return start()
	case "reload":
		return nil
	case "enable":
		err := p.toggle(name, true)
		if err == nil && now {
			err = start()
		}
		return err
	case "disable":
		err := p.toggle(name, false)
		if err == nil && now {
			err = stop()
		}
		return err
	case "mask", "unmask":
		return p.mask(name, verb == "mask", now)
	}
	return fmt.Errorf("Unknown command verb '%s', not simulated.", verb)
}

// toggle enables or disables, and counts it only when something changes.
func (p *proc) toggle(name string, on bool) error {
	v := p.sys.root()
	before := wants(v, name)
	if on {
		if err := p.sys.enable(name); err != nil {
			return err
		}
		if len(wants(v, name)) != len(before) {
			p.sys.mutated("unit " + name + " enabled")
		}
		return nil
	}
	if _, err := loadUnit(v, name); err != nil && len(before) == 0 {
		return fmt.Errorf("Failed to disable unit: Unit file %s does not exist.", name)
	}
	for _, link := range before {
		if err := v.Remove(link); err != nil {
			return err
		}
		p.sys.mutated("unit " + name + " disabled")
	}
	return nil
}

func (p *proc) mask(name string, on, now bool) error {
	v := p.sys.root()
	at := "/etc/systemd/system/" + name
	f, err := loadUnit(v, name)
	masked := err == nil && f.masked
	if masked == on {
		return nil
	}
	p.sys.mutated("unit " + name + " masked or unmasked")
	if !on {
		return v.Remove(at)
	}
	if _, err := v.Lstat(at); err == nil {
		return fmt.Errorf("Failed to mask unit: File %s already exists.", at)
	}
	if now {
		_ = p.sys.stop(name)
	}
	return v.Symlink("/dev/null", at)
}

func (p *proc) queryUnits(verb string, opts map[string][]string, names []string) int {
	v := p.sys.root()
	switch verb {
	case "is-system-running":
		p.printf("running\n")
		return 0
	case "list-units", "list-unit-files":
		return p.listUnits(opts)
	}
	code := 0
	for i, name := range names {
		f, err := loadUnit(v, name)
		st := p.sys.state(name)
		switch verb {
		case "is-active":
			p.printf("%s\n", st.active)
			if st.active != "active" {
				code = exitNotActive
				if err != nil {
					code = exitNoUnit
				}
			}
		case "is-failed":
			p.printf("%s\n", st.active)
			if st.active != "failed" {
				code = 1
			}
		case "is-enabled":
			text := enabled(v, name, f, err)
			if text == "not-found" {
				p.printf("not-found\n")
				code = exitNoUnit
				continue
			}
			p.printf("%s\n", text)
			if text != "enabled" && text != "static" {
				code = 1
			}
		case "cat":
			if err != nil {
				fmt.Fprintf(p.stderr, "No files found for %s.\n", name)
				return 1
			}
			data, _ := v.ReadFile(f.path)
			p.printf("# %s\n%s", f.path, data)
		case "show":
			if i > 0 {
				p.printf("\n")
			}
			p.show(st, f, err, enabled(v, name, f, err), opts)
		case "status":
			code = p.status(name, st, f, err, enabled(v, name, f, err))
		}
	}
	return code
}

func enabled(v *disk.View, name string, f *unitFile, err error) string {
	switch {
	case err != nil:
		return "not-found"
	case f.masked:
		return "masked"
	case len(wants(v, name)) > 0:
		return "enabled"
	case f.get("Install.WantedBy") == "":
		return "static"
	}
	return "disabled"
}

func (p *proc) status(name string, st unit, f *unitFile, err error, enabled string) int {
	if err != nil {
		fmt.Fprintf(p.stderr, "Unit %s could not be found.\n", name)
		return exitNoUnit
	}
	p.printf("● %s - %s\n     Loaded: loaded (%s; %s)\n     Active: %s (%s) since %s\n", name, f.get("Unit.Description"), f.path, enabled,
		st.active, st.sub, st.since.UTC().Format("Mon 2006-01-02 15:04:05 MST"))
	if st.pid != 0 {
		p.printf("   Main PID: %d\n", st.pid)
	}
	p.printf("\n%s\n", strings.Join(newest(p.sys.said(name), 10), "\n"))
	if st.active != "active" {
		return exitNotActive
	}
	return 0
}

func (p *proc) show(st unit, f *unitFile, err error, enabled string, opts map[string][]string) {
	load, at, exec := "not-found", "", ""
	if err == nil {
		load, at, exec = "loaded", f.path, f.get("Service.ExecStart")
		if f.masked {
			load = "masked"
		}
	} else {
		enabled = ""
	}
	values := [][2]string{
		{"Id", st.name}, {"LoadState", load}, {"ActiveState", st.active}, {"SubState", st.sub}, {"Result", st.result}, {"MainPID", strconv.Itoa(st.pid)},
		{"NRestarts", strconv.Itoa(st.restarts)}, {"ExecMainStatus", strconv.Itoa(st.code)}, {"FragmentPath", at}, {"UnitFileState", enabled},
		{"ExecStart", exec}, {"NeedDaemonReload", "no"}, {"ActiveEnterTimestamp", st.since.UTC().Format("Mon 2006-01-02 15:04:05 MST")},
	}
	var want []string
	for _, w := range append(opts["p"], opts["property"]...) {
		want = append(want, strings.Split(w, ",")...)
	}
	for _, kv := range values {
		if len(want) > 0 && !slices.Contains(want, kv[0]) {
			continue
		}
		if has(opts, "value") {
			p.printf("%s\n", kv[1])
		} else {
			p.printf("%s=%s\n", kv[0], kv[1])
		}
	}
}

func (p *proc) listUnits(opts map[string][]string) int {
	unitsOf(p.sys).mu.Lock()
	var all []unit
	for _, u := range unitsOf(p.sys).all {
		all = append(all, *u)
	}
	unitsOf(p.sys).mu.Unlock()
	slices.SortFunc(all, func(a, b unit) int { return strings.Compare(a.name, b.name) })
	want := last(opts, "state")
	for _, u := range all {
		if (want == "" && u.active == "inactive" && !has(opts, "all")) || want != "" && want != u.active {
			continue
		}
		p.printf("%s loaded %s %s %s\n", u.name, u.active, u.sub, strings.TrimSuffix(u.name, ".service"))
	}
	return 0
}
