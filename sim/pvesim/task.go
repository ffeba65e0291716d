package pvesim

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// task is one worker process and what is kept of it.
type task struct {
	upid   string
	node   string
	pid    int
	pstart int
	kind   string // qmclone, …
	id     string // of what it works on; may be empty
	user   string
	token  string // token's name without its user's
	start  time.Time
	end    time.Time // zero while running
	exit   string
	lines  []string
	stop   chan struct{}
	asked  bool   // stop is closed
	undo   func() // what was prepared for it before it began, where it never does
}

func (t *task) running() bool { return t.end.IsZero() }

func (t *task) logf(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		t.lines = append(t.lines, line)
	}
}

// warnings is the outcome of a task that did its work and has something to say.
type warnings int

func (w warnings) Error() string { return fmt.Sprintf("WARNINGS: %d", int(w)) }

// startTask forks a worker and returns its UPID. The work runs with mu held.
func (c *call) startTask(kind, id string, work func(w worker) error, undo ...func()) (any, error) {
	t := c.s.newTask(cmp.Or(c.param("node"), c.s.nodes()[0]), kind, id, c.who) // the node that is asked does what belongs to none
	if len(undo) > 0 {
		t.undo = undo[0]
	}
	fault := c.fault
	c.s.spawn(func() { c.s.work(t, fault, work) })
	if c.s.closed {
		return nil, errDropped
	}
	return t.upid, nil
}

// finished waits some seconds for a task that a call has started, and answers with
// nothing where it has ended by then.
func (c *call) finished(upid any, seconds int) (any, error) {
	id, _ := upid.(string)
	t := c.s.tasks[id]
	for range seconds * 10 {
		if t == nil || !t.running() {
			break
		}
		if err := c.s.wait(100*time.Millisecond, nil); err != nil {
			return nil, err
		}
	}
	switch {
	case t == nil || t.running():
		return upid, nil
	case t.failed():
		return nil, die("%s", t.exit)
	}
	return nil, nil
}

func (s *state) newTask(node, kind, id string, who identity) *task {
	s.pids += 3
	now := time.Now()
	user, token, _ := strings.Cut(who.id, "!")
	t := &task{node: node, kind: kind, id: id, user: user, token: token, start: now, pid: s.pids,
		pstart: 100000 + int(now.Sub(s.began)/(10*time.Millisecond)), stop: make(chan struct{})}
	t.upid = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, t.pid, t.pstart, now.Unix(), kind, id, who.id)
	s.tasks[t.upid] = t
	s.order = append(s.order, t)
	s.forgetTasks()
	return t
}

// keptTasks is how many tasks are remembered, as the archive's index is rotated.
const keptTasks = 20000

func (s *state) forgetTasks() {
	if len(s.order) <= keptTasks || s.order[0].running() {
		return
	}
	delete(s.tasks, s.order[0].upid)
	s.order = s.order[1:]
}

// work is a worker's life.
func (s *state) work(t *task, hit *Fault, do func(w worker) error) {
	w := worker{s: s, task: t}
	// The nanoseconds put workers that were forked in the same moment of virtual
	// time in an order, which is then the same in every run.
	err := w.sleep(s.opts.Timing.Fork + time.Duration(t.pid))
	var r Rule
	if hit != nil {
		r = hit.rule
	}
	if err == nil && r.TaskDelay > 0 {
		err = w.sleep(r.TaskDelay)
	}
	fails, killed := r.TaskError != "", r.TaskError == Killed
	switch {
	case err != nil:
	case killed: // and nothing is put back
		err = errStopped
	case fails && !r.After:
		err = errors.New(r.TaskError)
		if t.undo != nil {
			t.undo()
		}
	default:
		_, err = s.attempt(t.upid, func() (any, error) { return nil, do(w) })
	}
	if err == nil && fails {
		err = errors.New(r.TaskError)
	}
	if err == nil && r.TaskWarnings > 0 {
		err = warnings(r.TaskWarnings)
	}
	t.finish(err)
	s.opts.Log.Debug("task", "upid", t.upid, "exit", t.exit)
}

func (t *task) finish(err error) {
	t.end = time.Now()
	var warn warnings
	switch {
	case err == nil:
		t.exit = "OK"
		t.logf("TASK OK")
	case errors.As(err, &warn):
		t.exit = warn.Error()
		t.logf("TASK %s", t.exit)
	case errors.Is(err, errStopped) && t.asked:
		t.exit = "received interrupt"
		t.logf("TASK ERROR: %s", t.exit)
	case errors.Is(err, errStopped), errors.Is(err, errClosed):
		t.exit = Killed
	default:
		t.exit = strings.ReplaceAll(err.Error(), "\n", " ")
		t.logf("TASK ERROR: %s", t.exit)
	}
}

// failed is what the filter errors=1 means.
func (t *task) failed() bool {
	return !t.running() && t.exit != "OK" && !strings.HasPrefix(t.exit, "WARNINGS: ")
}

// attempt does something, and answers with a mistake of ours where it panics: who
// asks should not have to guess why the connection ended. It is printed, too.
func (s *state) attempt(what string, do func() (any, error)) (data any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.alarm.Error("pvesim: a mistake of the simulator's, please report it", "at", what, "panic", p, "stack", string(debug.Stack()))
			data, err = nil, die("the simulator failed at %s: %v", what, p)
		}
	}()
	return do()
}
