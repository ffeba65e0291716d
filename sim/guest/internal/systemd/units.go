package systemd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/shell"
	"github.com/cps-gpu/homelab/sim/guest/internal/storage"
)

// unit is a unit's life: what systemctl status tells.
type unit struct {
	name     string
	active   string // inactive, activating, active, deactivating, failed
	sub      string // dead, start, running, exited, auto-restart, failed
	result   string // success, exit-code
	code     int    // of the main process, when it ended
	restarts int
	since    time.Time
	pid      int

	job error // why its start job failed

	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine that runs it is gone
	first  chan struct{} // closed when the start job has its result
	stop   func()        // ends what runs without a goroutine
}

// service is what a unit's main process does. Started returns with nil when the
// service is ready; it may leave something to be called when it is stopped.
type service func(ctx context.Context, u *unit, f *unitFile) (stop func(), code int)

// units are those of a running system.
type units struct {
	mu  sync.Mutex
	all map[string]*unit
}

func unitsOf(s *machine.System) *units { return machine.StateOf[units](s) }

// unitOf returns the unit's record, made when there is none. units.mu must be held.
func unitOf(s *machine.System, name string) *unit {
	u := unitsOf(s).all[name]
	if unitsOf(s).all == nil {
		unitsOf(s).all = map[string]*unit{}
	}
	if u == nil {
		u = &unit{name: name, active: "inactive", sub: "dead", result: "success"}
		unitsOf(s).all[name] = u
	}
	return u
}

// state returns a copy of a unit's record.
func state(s *machine.System, name string) unit {
	unitsOf(s).mu.Lock()
	defer unitsOf(s).mu.Unlock()
	if u := unitsOf(s).all[name]; u != nil {
		return *u
	}
	return unit{name: name, active: "inactive", sub: "dead", result: "success"}
}

// Active reports whether a service runs.
func Active(s *machine.System, name string) bool { return state(s, name).active == "active" }

// Start starts a unit and, unless wait is false, waits for its start job.
func Start(ctx context.Context, s *machine.System, name string, wait bool) error {
	f, err := load(s.Root(), name)
	switch {
	case err != nil:
		return fmt.Errorf("Failed to start %s: Unit %s %w.", name, name, errNoUnit)
	case f.masked:
		return fmt.Errorf("Failed to start %s: Unit %s is masked.", name, name)
	}
	conflict := fmt.Errorf("Failed to start %s: Transaction contains conflicting jobs", name)
	if s.Ending() {
		return conflict
	}
	unitsOf(s).mu.Lock()
	u := unitOf(s, name)
	if u.active != "active" && u.active != "activating" {
		run, cancel := context.WithCancel(s.Context())
		u.cancel, u.ended, u.first = cancel, make(chan struct{}), make(chan struct{})
		u.active, u.sub, u.code, u.restarts, u.since, u.job = "activating", "start", 0, 0, time.Now(), nil
		if !s.Go(func() { runUnit(run, s, u, f) }) {
			u.active, u.sub, u.cancel = "inactive", "dead", nil
			unitsOf(s).mu.Unlock()
			cancel()
			return conflict
		}
	}
	first := u.first
	unitsOf(s).mu.Unlock()
	if !wait {
		return nil
	}
	select {
	case <-first:
	case <-ctx.Done():
		return ctx.Err()
	}
	return state(s, name).job
}

// runUnit is the life of a unit until it is stopped, or runs without needing a goroutine.
func runUnit(ctx context.Context, s *machine.System, u *unit, f *unitFile) {
	defer close(u.ended)
	first := u.first // a later start has one of its own
	answer := sync.OnceFunc(func() { close(first) })
	defer answer()
	mu := &unitsOf(s).mu
	if !storage.MountFor(ctx, s, u.name, strings.Fields(strings.Join(f.values["Unit.RequiresMountsFor"], " "))) {
		mu.Lock()
		u.active, u.sub, u.job = "inactive", "dead", fmt.Errorf("A dependency job for %s failed. See 'journalctl -xe' for details.", u.name)
		mu.Unlock()
		s.Log(u.name, "Dependency failed for %s.", strings.TrimSuffix(u.name+" - "+f.get("Unit.Description"), " - "))
		s.Log(u.name, "%s: Job %s/start failed with result 'dependency'.", u.name, u.name)
		return
	}
	begin := mainProcess(s, f)
	for {
		mu.Lock()
		u.pid = 1000 + len(unitsOf(s).all)*7 + u.restarts
		mu.Unlock()
		stop, code := begin(ctx, u, f)
		if ctx.Err() != nil {
			if stop != nil {
				stop()
			}
			return
		}
		mu.Lock()
		again := u.settle(f, stop, code)
		why := u.result
		mu.Unlock()
		if code > 0 {
			s.Log(u.name, "%s: Main process exited, code=exited, status=%d/FAILURE", u.name, code)
		}
		if code != 0 {
			s.Log(u.name, "%s: Failed with result '%s'.", u.name, why)
		}
		answer()
		if !again || !s.Pause(ctx, restartDelay(f)) {
			return
		}
		mu.Lock()
		u.restarts++
		u.sub = "start"
		n := u.restarts
		mu.Unlock()
		s.Log(u.name, "%s: Scheduled restart job, restart counter is at %d.", u.name, n)
	}
}

// settle is the state of a unit whose main process is ready or has ended, and whether it starts again.
func (u *unit) settle(f *unitFile, stop func(), code int) (again bool) {
	u.code, u.job, u.result, u.since = max(code, 0), nil, "success", time.Now()
	kind := f.get("Service.Type")
	switch {
	case code == 0 && stop != nil:
		u.active, u.sub, u.stop = "active", "running", stop
		return false
	case code == 0 && kind == "oneshot" && f.get("Service.RemainAfterExit") == "yes":
		u.active, u.sub = "active", "exited"
	case code == 0:
		u.active, u.sub = "inactive", "dead"
	default:
		u.active, u.sub, u.result = "failed", "failed", "exit-code"
		if code == ExitEarly {
			u.result = "protocol"
		}
		if kind != "" && kind != "simple" { // its job is done when its process is there, whatever becomes of it (systemd.service(5), Type=)
			u.job = errFailed(u.name)
		}
		if again = slices.Contains([]string{"always", "on-failure"}, f.get("Service.Restart")); again {
			u.active, u.sub = "activating", "auto-restart"
		}
	}
	u.pid = 0
	return again
}

func restartDelay(f *unitFile) time.Duration {
	if d, err := machine.Seconds(f.get("Service.RestartSec")); err == nil && f.get("Service.RestartSec") != "" {
		return d
	}
	return 100 * time.Millisecond
}

// mainProcess chooses what a unit's ExecStart does.
func mainProcess(s *machine.System, f *unitFile) service {
	words := strings.Fields(f.get("Service.ExecStart"))
	if len(words) == 0 {
		return func(context.Context, *unit, *unitFile) (func(), int) { return func() {}, 0 } // a target or socket
	}
	words[0] = strings.TrimLeft(words[0], "-@+!:")
	if serve := s.Service(words); serve != nil {
		return func(ctx context.Context, u *unit, f *unitFile) (func(), int) {
			return serve(ctx, s, u.name, words, environment(s, f))
		}
	}
	return func(ctx context.Context, u *unit, f *unitFile) (func(), int) { return command(ctx, s, u, f) }
}

// ExitEarly stands for a service of type notify that ends with status 0 before it has said that
// it is ready.
const ExitEarly = -1

// ExitExec is systemd's status for a program that is not there.
const ExitExec = 203

// command runs any other ExecStart. A file that is one of our programs runs to its
// end; one that stands for a daemon, which has no function, just stays.
func command(ctx context.Context, s *machine.System, u *unit, f *unitFile) (stop func(), code int) {
	for _, line := range append(slices.Clone(f.values["Service.ExecStartPre"]), f.values["Service.ExecStart"]...) {
		p := s.Session(disk.RootUser(), nil, journalOf(s, u.name), journalOf(s, u.name))
		p.Dir = "/"
		p.Env = expand.ListEnviron(append(environment(s, f), p.Environ()...)...)
		words := strings.Fields(strings.TrimLeft(line, "-@+!:"))
		file, err := p.Find(words[0])
		if err != nil {
			s.Log(u.name, "%s: Failed to locate executable %s: %s", u.name, words[0], disk.Strerror(err))
			return nil, ExitExec
		}
		data, _ := p.FS.ReadFile(file)
		if name, ok := disk.ProgramOf(data); ok && s.Program(name) == nil {
			return func() {}, 0
		}
		quoted, ignore := strings.TrimLeft(line, "-@+!:"), strings.HasPrefix(line, "-")
		if code := shell.Run(ctx, p, u.name, "exec "+quoted, nil); code != 0 && !ignore {
			return nil, code
		}
	}
	return nil, 0
}

// environment is Environment= and EnvironmentFile=.
func environment(s *machine.System, f *unitFile) []string {
	var out []string
	for _, e := range f.values["Service.Environment"] {
		out = append(out, strings.Trim(e, `"'`))
	}
	for _, name := range f.values["Service.EnvironmentFile"] {
		data, err := s.Root().ReadFile(strings.TrimPrefix(name, "-"))
		if err != nil {
			continue
		}
		for _, line := range disk.Lines(data) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && !strings.HasPrefix(key, "#") {
				out = append(out, key+"="+strings.Trim(value, `"'`))
			}
		}
	}
	return out
}

// Stop stops a unit and returns when it has ended.
func Stop(s *machine.System, name string) error {
	unitsOf(s).mu.Lock()
	u := unitsOf(s).all[name]
	if u == nil || u.cancel == nil {
		unitsOf(s).mu.Unlock()
		if _, err := load(s.Root(), name); err != nil {
			return fmt.Errorf("Failed to stop %s: Unit %s not loaded.", name, name)
		}
		return nil
	}
	cancel, ended := u.cancel, u.ended
	unitsOf(s).mu.Unlock()
	cancel()
	<-ended
	unitsOf(s).mu.Lock()
	stop := u.stop
	u.stop, u.cancel, u.pid = nil, nil, 0
	u.active, u.sub = "inactive", "dead"
	unitsOf(s).mu.Unlock()
	if stop != nil {
		stop()
	}
	// An end takes time, so that what the unit said is older than all that comes after.
	<-time.After(time.Millisecond)
	return nil
}

// StopAll ends all units at once, for the end of the system.
func StopAll(s *machine.System) {
	unitsOf(s).mu.Lock()
	var stops []func()
	for _, u := range unitsOf(s).all {
		if u.stop != nil {
			stops = append(stops, u.stop)
			u.stop = nil
		}
	}
	unitsOf(s).mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// StartEnabled is multi-user.target: everything that is enabled, side by side, but each unit
// after those that Before= and After= put before it.
func StartEnabled(s *machine.System) {
	files := map[string]*unitFile{}
	var names []string
	for _, link := range wants(s.Root(), "") {
		name := path.Base(link)
		if f, err := load(s.Root(), name); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
			files[name] = f
		}
	}
	begun := map[string]chan struct{}{} // closed when its start job is there, or never will be
	for _, name := range names {
		begun[name] = make(chan struct{})
	}
	for _, name := range names {
		first := earlier(name, names, files)
		begin := func() {
			defer close(begun[name])
			_ = Start(s.Context(), s, name, false)
		}
		if len(first) == 0 {
			begin()
			continue
		}
		s.Go(func() {
			for _, other := range first {
				select {
				case <-begun[other]:
				case <-s.Context().Done():
					return
				}
				awaitJob(s, other)
			}
			begin()
		})
	}
}

// awaitJob waits until a unit's start job has its result.
func awaitJob(s *machine.System, name string) {
	unitsOf(s).mu.Lock()
	first := unitOf(s, name).first
	unitsOf(s).mu.Unlock()
	if first == nil { // it was not started
		return
	}
	select {
	case <-first:
	case <-s.Context().Done():
	}
}

// earlier are the units among names that start before one of them. Of two that are before each
// other, systemd drops one; here none waits.
func earlier(name string, names []string, files map[string]*unitFile) (out []string) {
	before := func(a, b string) bool {
		return slices.Contains(strings.Fields(strings.Join(files[a].values["Unit.Before"], " ")), b) ||
			slices.Contains(strings.Fields(strings.Join(files[b].values["Unit.After"], " ")), a)
	}
	for _, other := range names {
		if other != name && before(other, name) && !before(name, other) {
			out = append(out, other)
		}
	}
	return out
}

// errFailed is what systemctl says of a unit whose process ended.
func errFailed(name string) error {
	return fmt.Errorf("Job for %s failed because the control process exited with error code.\nSee \"systemctl status %s\" and \"journalctl -xeu %s\" for details.", name, name, name)
}

// States are the states of all units that were started since the last boot.
func States(s *machine.System) map[string]string {
	unitsOf(s).mu.Lock()
	defer unitsOf(s).mu.Unlock()
	out := map[string]string{}
	for name, u := range unitsOf(s).all {
		out[name] = u.active
	}
	return out
}
