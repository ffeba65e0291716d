package api

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// tasks watches running tasks, all those of a node with one request. pveproxy answers GET
// /nodes/N/tasks itself, over a connection that stays open, while each .../status costs a handshake
// and a request to pvedaemon.
//
// There is no goroutine behind it. One of the waiting callers takes the turn to poll for all of
// them. It passes the turn on when its own task is done or its context ends.
type tasks struct {
	mu    sync.Mutex
	nodes map[string]*nodeTasks
}

type nodeTasks struct {
	node   string
	sem    chan struct{} // holds one token while a caller polls
	kick   chan struct{} // a new task was added: poll sooner
	mu     sync.Mutex
	polled time.Time
	byID   map[string]*watch
}

type watch struct {
	upid   UPID
	since  time.Time // when the wait started
	missed int       // how often the list lacked the task
	done   chan struct{}
	exit   string
	err    error
	users  int
}

// Wait returns nil if the task succeeded (OK, or with warnings), and a [*TaskError] if it failed.
// If ctx ends first, Wait returns ctx's error and the task continues.
func (c *Client) Wait(ctx context.Context, upid UPID) error {
	_, err := c.exit(ctx, upid)
	return err
}

// exit is Wait that also returns the exit status: "OK", or "WARNINGS: 2".
func (c *Client) exit(ctx context.Context, upid UPID) (string, error) {
	n := c.tasks.forNode(upid.Node)
	w := n.join(upid)
	defer n.remove(w)
	converge.Progressf(ctx, "%s", upid.description())
	var away OutageTimer
	defer away.Reset()
	for {
		select {
		case <-ctx.Done():
			c.earlier.lose(upid.Node)
			return "", ctx.Err()
		case <-w.done:
			return w.exit, c.taskResult(ctx, w)
		case n.sem <- struct{}{}:
			err := n.poll(ctx, c, w)
			<-n.sem
			switch {
			case err == nil:
				away.Reset()
				continue
			case !converge.IsTransient(err) || away.Expired(ctx):
				c.earlier.lose(upid.Node)
				return "", err
			}
			converge.Progressf(ctx, "%s: %s; asking again", upid.description(), ShortMessage(err))
			if converge.Pause(ctx, unheardPause) != nil {
				c.earlier.lose(upid.Node)
				return "", errors.Join(err, ctx.Err())
			}
		}
	}
}

// taskUnheard is how long a host may fail to report a task's state, from the first failure and with
// pauses of unheardPause between the requests. The task continues meanwhile.
const (
	taskUnheard  = 2 * time.Minute
	unheardPause = 2 * time.Second
)

// OutageTimer measures how long a host has not answered while its work continues: at most taskUnheard
// of running time. Time in which the local machine sleeps does not count.
type OutageTimer struct {
	late <-chan struct{}
	end  context.CancelFunc
}

// Reset resets the time, after an answer or at the end of the wait.
func (s *OutageTimer) Reset() {
	if s.end != nil {
		s.end()
	}
	*s = OutageTimer{}
}

// Expired records a missing answer, and reports whether answers have been missing for too long.
func (s *OutageTimer) Expired(ctx context.Context) bool {
	if s.end == nil {
		limited, end := converge.WithRunningTimeout(ctx, taskUnheard, context.DeadlineExceeded)
		s.late, s.end = limited.Done(), end
	}
	select {
	case <-s.late:
		return true
	default:
		return false
	}
}

// taskResult turns an exit status into an error.
func (c *Client) taskResult(ctx context.Context, w *watch) error {
	switch {
	case w.err != nil:
		return w.err
	case w.exit == "OK":
		return nil
	case strings.HasPrefix(w.exit, "WARNINGS:"):
		converge.Progressf(ctx, "%s ended with %s", w.upid.description(), strings.ToLower(w.exit))
		return nil
	}
	failed := &TaskError{UPID: w.upid, Exit: strings.TrimSpace(w.exit), Log: c.taskLog(ctx, w.upid), Token: c.cfg.TokenID}
	if path, privileges, ok := denied(failed.Exit); ok && len(privileges) > 0 {
		failed.Cure = c.expects.cure(path, privileges)
	}
	return failed
}

func (t *tasks) forNode(node string) *nodeTasks {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes = map[string]*nodeTasks{}
	}
	n := t.nodes[node]
	if n == nil {
		n = &nodeTasks{node: node, sem: make(chan struct{}, 1), kick: make(chan struct{}, 1), byID: map[string]*watch{}}
		t.nodes[node] = n
	}
	return n
}

func (n *nodeTasks) join(upid UPID) *watch {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := upid.String()
	w := n.byID[id]
	if w == nil {
		w = &watch{upid: upid, since: time.Now(), done: make(chan struct{})}
		n.byID[id] = w
	}
	w.users++
	select {
	case n.kick <- struct{}{}:
	default:
	}
	return w
}

func (n *nodeTasks) remove(w *watch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(n.byID, w.upid.String())
	}
}

// firstPoll is the age at which a new task is first checked; short tasks (a config change, a linked
// clone on LVM) take little longer.
const firstPoll = 200 * time.Millisecond

// nextPoll returns when the next poll is worthwhile: a quarter of the youngest task's age after the last
// poll, but not before firstPoll and not after most. With more tasks polls are less frequent,
// because each shows the ends of several.
func (n *nodeTasks) nextPoll(most time.Duration) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	least := firstPoll
	if len(n.byID) > 1 {
		least = 2 * firstPoll * time.Duration(len(n.byID))
	}
	pause, oldest := most, time.Time{}
	for _, w := range n.byID {
		pause = min(pause, max(time.Since(w.since)/4, least))
		if oldest.IsZero() || w.since.Before(oldest) {
			oldest = w.since
		}
	}
	if n.polled.After(oldest) {
		oldest = n.polled
	}
	return oldest.Add(pause)
}

// poll waits until a poll is due, and polls. It returns early when mine is done.
func (n *nodeTasks) poll(ctx context.Context, c *Client, mine *watch) error {
	for {
		pause := time.Until(n.nextPoll(c.cfg.Poll))
		if pause <= 0 {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-mine.done:
			timer.Stop()
			return nil
		case <-n.kick:
			timer.Stop()
			continue
		case <-timer.C:
		}
		break
	}
	err := n.list(ctx, c)
	n.mu.Lock()
	n.polled = time.Now()
	n.mu.Unlock()
	return err
}

// Task is an entry of GET /nodes/N/tasks.
type Task struct {
	UPID    string    `json:"upid"`
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Status  string    `json:"status"`
	EndTime *wire.Int `json:"endtime"`
}

// Running reports whether the task has not ended.
func (l Task) Running() bool {
	return l.EndTime == nil && (l.Status == "" || l.Status == "RUNNING" || l.Status == "running")
}

// MaxTasks bounds an answer; a task that is missing in it is requested individually.
const MaxTasks = 500

func (n *nodeTasks) list(ctx context.Context, c *Client) error {
	waiting, oldest := n.watches()
	if len(waiting) == 0 {
		return nil
	}
	var all []Task
	query := url.Values{"source": {"all"}, "limit": {strconv.Itoa(MaxTasks)}, "since": {strconv.FormatInt(oldest.Unix(), 10)}}
	if err := c.Get(ctx, NodePath(n.node, "tasks"), query, &all); err != nil {
		return err
	}
	seen := make(map[string]Task, len(all))
	for _, l := range all {
		// A task that has just ended may be both in the list of active tasks and in the archive.
		if old, twice := seen[l.UPID]; !twice || old.Running() {
			seen[l.UPID] = l
		}
	}
	for _, w := range waiting {
		l, found := seen[w.upid.String()]
		switch {
		case found && !l.Running():
			w.finish(l.Status, nil)
		case found:
			w.missed = 0
		default:
			if w.missed++; w.missed > 1 {
				if err := c.pollOne(ctx, w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (n *nodeTasks) watches() (all []*watch, oldest time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.byID {
		select {
		case <-w.done:
			continue
		default:
		}
		all = append(all, w)
		if oldest.IsZero() || w.upid.Started.Before(oldest) {
			oldest = w.upid.Started
		}
	}
	return all, oldest
}

// finish is called only by the caller that holds the turn, so it runs once.
func (w *watch) finish(exit string, err error) {
	select {
	case <-w.done:
	default:
		w.exit, w.err = exit, err
		close(w.done)
	}
}

// pollOne requests the state of one task individually.
func (c *Client) pollOne(ctx context.Context, w *watch) error {
	var status struct {
		Status string `json:"status"`
		Exit   string `json:"exitstatus"`
	}
	err := c.Get(ctx, NodePath(w.upid.Node, "tasks", w.upid.String(), "status"), nil, &status)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		var e *Error
		if errors.As(err, &e) && e.class() == Permanent {
			w.finish("", err)
			return nil
		}
		return err
	case status.Status == "stopped":
		w.finish(status.Exit, nil)
	}
	return nil
}

// logTail is how many lines of a failed task's log an error shows.
const logTail = 10

// taskLog returns the end of a task's log, or nil if it is not available.
func (c *Client) taskLog(ctx context.Context, upid UPID) []string {
	var lines []struct {
		Text string `json:"t"`
	}
	if c.Get(ctx, NodePath(upid.Node, "tasks", upid.String(), "log"), url.Values{"limit": {"0"}}, &lines) != nil {
		return nil
	}
	var out []string
	for _, l := range lines {
		if !isProgressLine(l.Text) {
			out = append(out, l.Text)
		}
	}
	return out[max(0, len(out)-logTail):]
}

// RunningTasks returns the tasks that currently run on a host.
func (c *Client) RunningTasks(ctx context.Context, host string) ([]Task, error) {
	var all []Task
	if err := c.Get(ctx, NodePath(host, "tasks"), url.Values{"source": {"active"}, "limit": {strconv.Itoa(MaxTasks)}}, &all); err != nil {
		return nil, err
	}
	var out []Task
	for _, l := range all {
		if l.Running() {
			out = append(out, l)
		}
	}
	return out, nil
}
