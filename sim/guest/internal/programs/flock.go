package programs

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runFlock runs a command while it alone holds the lock of a file or folder, as flock(1)
// of util-linux does: exit status 1, or that of -E, where that did not come within -w seconds, or at once
// with -n; else the command's. The kernel's locks end with the system.
func runFlock(ctx context.Context, p *machine.Proc) int {
	at := 1 // its own flags end at the file; the command has others
	for at < len(p.Args) && len(p.Args[at]) > 1 && p.Args[at][0] == '-' {
		if p.Args[at] == "-w" || p.Args[at] == "-E" {
			at++
		}
		at++
	}
	opts, _ := getopt.Parse(p.Args[1:min(at, len(p.Args))], "w", "E")
	if len(p.Args) < at+2 {
		return p.Fail("only 'flock [-n|-w SECONDS] [-E STATUS] FILE COMMAND' is simulated")
	}
	path, limit := p.Abs(p.Args[at]), time.Duration(1<<60)
	if w := opts["w"]; len(w) > 0 {
		var err error
		if limit, err = machine.Seconds(w[0]); err != nil {
			return p.Fail("invalid timeout value: '%s'", w[0])
		}
	}
	busy := 1
	if e := opts["E"]; len(e) > 0 {
		var err error
		if busy, err = strconv.Atoi(e[0]); err != nil {
			return p.Fail("invalid exit code: '%s'", e[0])
		}
	}
	if getopt.Has(opts, "n") {
		limit = 0
	}
	if _, err := p.FS.Stat(path); err != nil {
		if err := p.FS.WriteFile(path, nil, 0o666); err != nil {
			return p.Fail("cannot open lock file %s: %s", p.Args[at], disk.Strerror(err))
		}
	}
	until := time.Now().Add(p.Sys.Scale(limit))
	locks, mine := machine.StateOf[flocks](p.Sys), false
	err := p.Poll(ctx, func() bool {
		mine = locks.take(path)
		return mine || !time.Now().Before(until)
	})
	if err != nil || !mine {
		return busy
	}
	defer locks.release(path)
	return p.Start(ctx, p.Args[at+1:]...)
}

// flocks are the paths whose lock somebody holds.
type flocks struct {
	mu   sync.Mutex
	held map[string]bool
}

// take takes the lock of a path, if nobody has it.
func (l *flocks) take(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[path] {
		return false
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[path] = true
	return true
}

func (l *flocks) release(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, path)
}
