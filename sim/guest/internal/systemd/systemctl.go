package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the programs of systemd, and those that list what it started.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"systemctl":  runSystemctl,
		"journalctl": runJournalctl,
		"poweroff":   runPoweroff, "reboot": runPoweroff, "shutdown": runPoweroff,
		"timedatectl": runTimedatectl,
	}
}

// Exit statuses of systemctl, from its manual page.
const (
	exitNotActive = 3
	exitNoUnit    = 4
	exitNotFound  = 5
)

func runSystemctl(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "p", "property", "t", "type", "state", "n", "o", "lines", "output")
	if len(args) == 0 {
		args = []string{"list-units"}
	}
	verb, names := args[0], args[1:]
	for i := range names {
		names[i] = UnitName(names[i])
	}
	if getopt.Has(opts, "q", "quiet") {
		p.Stdout = io.Discard
	}
	switch verb {
	case "is-active", "is-enabled", "is-failed", "status", "show", "list-units", "cat", "is-system-running", "list-unit-files":
		return queryUnits(p, verb, opts, names)
	}
	if p.User.UID != 0 {
		fmt.Fprintf(p.Stderr, "Failed to %s: Access denied\n", verb)
		return 1
	}
	switch verb {
	case "daemon-reload":
		p.Sys.Reloads.Add(1)
		return 0
	case "daemon-reexec", "reset-failed", "preset", "set-default":
		return 0
	case "poweroff", "halt", "reboot":
		p.Sys.RecordChange(verb)
		p.Sys.PowerOff(verb == "reboot")
		return 0
	}
	return changeUnits(ctx, p, verb, opts, names)
}

func changeUnits(ctx context.Context, p *machine.Proc, verb string, opts map[string][]string, names []string) int {
	code := 0
	for _, name := range names {
		if err := changeUnit(ctx, p, verb, name, getopt.Has(opts, "now"), !getopt.Has(opts, "no-block")); err != nil {
			fmt.Fprintf(p.Stderr, "%v\n", err)
			code = 1
			if errors.Is(err, errNoUnit) {
				code = exitNotFound
			}
		}
	}
	return code
}

func changeUnit(ctx context.Context, p *machine.Proc, verb, name string, now, wait bool) error {
	s := p.Sys
	if p.Piped && wait {
		wait = p.Wait(ctx, 0) == nil
	}
	start := func() error {
		if st := state(s, name); st.active != "active" && st.active != "activating" {
			s.RecordChange("unit " + name + " started")
		}
		return Start(ctx, s, name, wait)
	}
	stop := func() error {
		if state(s, name).cancel != nil {
			s.RecordChange("unit " + name + " stopped")
		}
		return Stop(s, name)
	}
	switch verb {
	case "start":
		return start()
	case "stop":
		return stop()
	case "restart", "reload-or-restart", "try-restart", "condrestart":
		if strings.Contains(verb, "r") && verb[0] != 'r' && !Active(s, name) {
			return nil
		}
		if _, err := load(s.Root(), name); err != nil {
			return fmt.Errorf("Failed to restart %s: Unit %s %w.", name, name, errNoUnit)
		}
		if err := stop(); err != nil {
			return err
		}
		return start()
	case "reload":
		return nil
	case "enable":
		err := toggle(p, name, true)
		if err == nil && now {
			err = start()
		}
		return err
	case "disable":
		err := toggle(p, name, false)
		if err == nil && now {
			err = stop()
		}
		return err
	}
	return fmt.Errorf("Unknown command verb '%s', not simulated.", verb)
}

// toggle enables or disables, and counts it only when something changes.
func toggle(p *machine.Proc, name string, on bool) error {
	v := p.Sys.Root()
	before := wants(v, name)
	if on {
		if err := Enable(p.Sys, name); err != nil {
			return err
		}
		if len(wants(v, name)) != len(before) {
			p.Sys.RecordChange("unit " + name + " enabled")
		}
		return nil
	}
	if _, err := load(v, name); err != nil && len(before) == 0 {
		return fmt.Errorf("Failed to disable unit: Unit file %s does not exist.", name)
	}
	for _, link := range before {
		if err := v.Remove(link); err != nil {
			return err
		}
		p.Sys.RecordChange("unit " + name + " disabled")
	}
	return nil
}

func queryUnits(p *machine.Proc, verb string, opts map[string][]string, names []string) int {
	v := p.Sys.Root()
	switch verb {
	case "is-system-running":
		p.Printf("running\n")
		return 0
	case "list-units", "list-unit-files":
		return listUnits(p, opts)
	}
	code := 0
	for i, name := range names {
		f, err := load(v, name)
		st := state(p.Sys, name)
		switch verb {
		case "is-active":
			p.Printf("%s\n", st.active)
			if st.active != "active" {
				code = exitNotActive
				if err != nil {
					code = exitNoUnit
				}
			}
		case "is-failed":
			p.Printf("%s\n", st.active)
			if st.active != "failed" {
				code = 1
			}
		case "is-enabled":
			text := enabledState(v, name, f, err)
			if text == "not-found" {
				p.Printf("not-found\n")
				code = exitNoUnit
				continue
			}
			p.Printf("%s\n", text)
			if text != "enabled" && text != "static" {
				code = 1
			}
		case "cat":
			if err != nil {
				fmt.Fprintf(p.Stderr, "No files found for %s.\n", name)
				return 1
			}
			data, _ := v.ReadFile(f.path)
			p.Printf("# %s\n%s", f.path, data)
		case "show":
			if i > 0 {
				p.Printf("\n")
			}
			show(p, st, f, err, enabledState(v, name, f, err), opts)
		case "status":
			code = statusOf(p, name, st, f, err, enabledState(v, name, f, err))
		}
	}
	return code
}

func enabledState(v *disk.View, name string, f *unitFile, err error) string {
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

func statusOf(p *machine.Proc, name string, st unit, f *unitFile, err error, enabled string) int {
	if err != nil {
		fmt.Fprintf(p.Stderr, "Unit %s could not be found.\n", name)
		return exitNoUnit
	}
	p.Printf("● %s - %s\n     Loaded: loaded (%s; %s)\n     Active: %s (%s) since %s\n", name, f.get("Unit.Description"), f.path, enabled,
		st.active, st.sub, st.since.UTC().Format("Mon 2006-01-02 15:04:05 MST"))
	if st.pid != 0 {
		p.Printf("   Main PID: %d\n", st.pid)
	}
	p.Printf("\n%s\n", strings.Join(newest(p.Sys.Messages(name), 10), "\n"))
	if st.active != "active" {
		return exitNotActive
	}
	return 0
}

func show(p *machine.Proc, st unit, f *unitFile, err error, enabled string, opts map[string][]string) {
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
		if getopt.Has(opts, "value") {
			p.Printf("%s\n", kv[1])
		} else {
			p.Printf("%s=%s\n", kv[0], kv[1])
		}
	}
}

func listUnits(p *machine.Proc, opts map[string][]string) int {
	unitsOf(p.Sys).mu.Lock()
	var all []unit
	for _, u := range unitsOf(p.Sys).all {
		all = append(all, *u)
	}
	unitsOf(p.Sys).mu.Unlock()
	slices.SortFunc(all, func(a, b unit) int { return strings.Compare(a.name, b.name) })
	want := getopt.Last(opts, "state")
	for _, u := range all {
		if (want == "" && u.active == "inactive" && !getopt.Has(opts, "all")) || want != "" && want != u.active {
			continue
		}
		p.Printf("%s loaded %s %s %s\n", u.name, u.active, u.sub, strings.TrimSuffix(u.name, ".service"))
	}
	return 0
}
