package world

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/fault"
)

// Task is one worker process and what is kept of it.
type Task struct {
	UPID  string
	Node  string
	PID   int
	Born  int
	Kind  string // qmclone, …
	ID    string // of what it works on; may be empty
	User  string
	Token string // token's name without its user's
	Start time.Time
	End   time.Time // zero while running
	Exit  string
	Lines []string
	Stop  chan struct{}
	Asked bool   // stop is closed
	undo  func() // what was prepared for it before it began, where it never does
}

// Running reports whether a task has not ended yet.
func (t *Task) Running() bool { return t.End.IsZero() }

func (t *Task) logf(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		t.Lines = append(t.Lines, line)
	}
}

// Warnings is the outcome of a task that did its work and has something to say.
type Warnings int

// Error is the exit status.
func (w Warnings) Error() string { return fmt.Sprintf("WARNINGS: %d", int(w)) }

// StartTask forks a worker and returns its UPID. The work runs with the lock held.
func (c *Call) StartTask(kind, id string, work func(w Worker) error, undo ...func()) (any, error) {
	t := c.State.NewTask(cmp.Or(c.Param("node"), c.State.Nodes()[0]), kind, id, c.Who) // the node that is asked does what belongs to none
	if len(undo) > 0 {
		t.undo = undo[0]
	}
	fault := c.Fault
	c.State.Spawn(func() { c.State.Work(t, fault, work) })
	if c.State.Closed {
		return nil, answer.ErrDropped
	}
	return t.UPID, nil
}

// WaitForTask waits some seconds for a task that a call has started, and answers with
// nothing where it has ended by then.
func (c *Call) WaitForTask(upid any, seconds int) (any, error) {
	id, _ := upid.(string)
	t := c.State.Tasks[id]
	for range seconds * 10 {
		if t == nil || !t.Running() {
			break
		}
		if err := c.State.Wait(100*time.Millisecond, nil); err != nil {
			return nil, err
		}
	}
	switch {
	case t == nil || t.Running():
		return upid, nil
	case t.Failed():
		return nil, answer.Die("%s", t.Exit)
	}
	return nil, nil
}

// NewTask begins a task, and gives it a UPID.
func (s *State) NewTask(node, kind, id string, who Identity) *Task {
	s.PIDs += 3
	now := time.Now()
	user, token, _ := strings.Cut(who.ID, "!")
	t := &Task{Node: node, Kind: kind, ID: id, User: user, Token: token, Start: now, PID: s.PIDs,
		Born: 100000 + int(now.Sub(s.Began)/(10*time.Millisecond)), Stop: make(chan struct{})}
	t.UPID = fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", node, t.PID, t.Born, now.Unix(), kind, id, who.ID)
	s.Tasks[t.UPID] = t
	s.TaskOrder = append(s.TaskOrder, t)
	s.forgetTasks()
	return t
}

// keptTasks is how many tasks are remembered, as the archive's index is rotated.
const keptTasks = 20000

func (s *State) forgetTasks() {
	if len(s.TaskOrder) <= keptTasks || s.TaskOrder[0].Running() {
		return
	}
	delete(s.Tasks, s.TaskOrder[0].UPID)
	s.TaskOrder = s.TaskOrder[1:]
}

// Work is a worker's life.
func (s *State) Work(t *Task, hit *Fault, do func(w Worker) error) {
	w := Worker{State: s, Task: t}
	// The nanoseconds put workers that were forked in the same moment of virtual
	// time in an order, which is then the same in every run.
	err := w.Sleep(s.Options.Timing.Fork + time.Duration(t.PID))
	var r fault.Rule
	if hit != nil {
		r = hit.Rule
	}
	if err == nil && r.TaskDelay > 0 {
		err = w.Sleep(r.TaskDelay)
	}
	fails, killed := r.TaskError != "", r.TaskError == fault.Killed
	switch {
	case err != nil:
	case killed: // and nothing is put back
		err = ErrStopped
	case fails && !r.After:
		err = errors.New(r.TaskError)
		if t.undo != nil {
			t.undo()
		}
	default:
		_, err = s.Attempt(t.UPID, func() (any, error) { return nil, do(w) })
	}
	if err == nil && fails {
		err = errors.New(r.TaskError)
	}
	if err == nil && r.TaskWarnings > 0 {
		err = Warnings(r.TaskWarnings)
	}
	t.finish(err)
	s.Options.Log.Debug("task", "upid", t.UPID, "exit", t.Exit)
}

func (t *Task) finish(err error) {
	t.End = time.Now()
	var warn Warnings
	switch {
	case err == nil:
		t.Exit = "OK"
		t.logf("TASK OK")
	case errors.As(err, &warn):
		t.Exit = warn.Error()
		t.logf("TASK %s", t.Exit)
	case errors.Is(err, ErrStopped) && t.Asked:
		t.Exit = "received interrupt"
		t.logf("TASK ERROR: %s", t.Exit)
	case errors.Is(err, ErrStopped), errors.Is(err, ErrClosed):
		t.Exit = fault.Killed
	default:
		t.Exit = strings.ReplaceAll(err.Error(), "\n", " ")
		t.logf("TASK ERROR: %s", t.Exit)
	}
}

// Failed is what the filter errors=1 means.
func (t *Task) Failed() bool {
	return !t.Running() && t.Exit != "OK" && !strings.HasPrefix(t.Exit, "WARNINGS: ")
}

// Attempt does something, and answers with a mistake of ours where it panics: who
// asks should not have to guess why the connection ended. It is printed, too.
func (s *State) Attempt(what string, do func() (any, error)) (data any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Options.alarm.Error("pvesim: a mistake of the simulator's, please report it", "at", what, "panic", p, "stack", string(debug.Stack()))
			data, err = nil, answer.Die("the simulator failed at %s: %v", what, p)
		}
	}()
	return do()
}
