package guest

import (
	"context"
	"strconv"
	"time"
)

// runFlock runs a command while it alone holds the lock of a file or folder, as flock(1)
// of util-linux does: exit status 1, or that of -E, where that did not come within -w seconds, or at once
// with -n; else the command's. The kernel's locks end with the system.
func runFlock(ctx context.Context, p *proc) int {
	at := 1 // its own flags end at the file; the command has others
	for at < len(p.args) && len(p.args[at]) > 1 && p.args[at][0] == '-' {
		if p.args[at] == "-w" || p.args[at] == "-E" {
			at++
		}
		at++
	}
	opts, _ := flags(p.args[1:min(at, len(p.args))], "w", "E")
	if len(p.args) < at+2 {
		return p.fail("only 'flock [-n|-w SECONDS] [-E STATUS] FILE COMMAND' is simulated")
	}
	path, limit := p.abs(p.args[at]), time.Duration(1<<60)
	if w := opts["w"]; len(w) > 0 {
		var err error
		if limit, err = seconds(w[0]); err != nil {
			return p.fail("invalid timeout value: '%s'", w[0])
		}
	}
	busy := 1
	if e := opts["E"]; len(e) > 0 {
		var err error
		if busy, err = strconv.Atoi(e[0]); err != nil {
			return p.fail("invalid exit code: '%s'", e[0])
		}
	}
	if has(opts, "n") {
		limit = 0
	}
	if _, err := p.fs.Stat(path); err != nil {
		return p.fail("cannot open lock file %s: No such file or directory", p.args[at]) // a missing one is made there; nobody here needs that
	}
	until := time.Now().Add(p.sys.m.scale(limit))
	mine := false
	err := p.poll(ctx, func() bool {
		mine = p.sys.flock(path)
		return mine || !time.Now().Before(until)
	})
	if err != nil || !mine {
		return busy
	}
	defer p.sys.funlock(path)
	return p.start(ctx, p.args[at+1:]...)
}

// flock takes the lock of a path, if nobody has it.
func (s *system) flock(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flocked[path] {
		return false
	}
	if s.flocked == nil {
		s.flocked = map[string]bool{}
	}
	s.flocked[path] = true
	return true
}

func (s *system) funlock(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flocked, path)
}
