package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// In plain mode a check that takes longer than slowCheck says what it does, and a waiting step prints
// nothing new for quiet.
const (
	slowCheck = 5 * time.Second
	quiet     = 30 * time.Second
)

// plainDisplay prints a line for each important event: started, waiting (from time to time), ended.
type plainDisplay struct {
	console *Console

	mu      sync.Mutex
	began   map[string]time.Time   // when a step's check began
	said    map[string]time.Time   // when a step last had a line
	late    map[string]*time.Timer // says what a step waits for after a long silence
	skipped []string
	advice  advice
}

func newPlain(c *Console) *plainDisplay {
	return &plainDisplay{console: c, began: map[string]time.Time{}, said: map[string]time.Time{}, late: map[string]*time.Timer{}, advice: advice{}}
}

func (p *plainDisplay) Listen(e converge.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Kind == converge.Skipped {
		p.skipped = append(p.skipped, e.Step)
		return
	}
	if t := p.late[e.Step]; t != nil {
		t.Stop()
		delete(p.late, e.Step)
	}
	text := p.sentence(e)
	if text == "" {
		return
	}
	if e.Kind == converge.Checking {
		p.began[e.Step] = e.Time
	}
	if wait := p.due(e).Sub(e.Time); wait > 0 {
		p.printLater(e, text, wait)
		return
	}
	p.said[e.Step] = e.Time
	p.print(e.Time, e.Step, text)
}

// due is when an event gets its line, unless a newer one of its step comes first.
func (p *plainDisplay) due(e converge.Event) time.Time {
	last, begun := p.said[e.Step]
	switch {
	case e.Kind.Final(), e.Kind == converge.Acting:
		return e.Time
	case begun:
		return last.Add(quiet)
	case e.Kind == converge.Checking:
		return e.Time.Add(quiet)
	case e.Kind == converge.Progress:
		return p.began[e.Step].Add(slowCheck)
	}
	return e.Time
}

// later prints what a step waits for unless a newer event comes first: it may be the last
// message of the step for a long time.
func (p *plainDisplay) printLater(e converge.Event, text string, wait time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.late[e.Step] != t {
			return
		}
		delete(p.late, e.Step)
		at := e.Time.Add(wait)
		p.said[e.Step] = at
		p.print(at, e.Step, text)
	})
	p.late[e.Step] = t
}

func (p *plainDisplay) print(at time.Time, step, text string) {
	_, _ = fmt.Fprintf(p.console.Talk, "%s  %-22s %s\n", at.Format("15:04:05"), p.console.line(step), text)
}

// Reset forgets the events so far.
func (p *plainDisplay) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelPending()
	p.skipped = nil
	clear(p.began)
	clear(p.said)
}

// cancelPending cancels the pending lines about waits.
func (p *plainDisplay) cancelPending() {
	for _, t := range p.late {
		t.Stop()
	}
	clear(p.late)
}

// Close prints the steps that could not start, on one line.
func (p *plainDisplay) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelPending()
	if len(p.skipped) > 0 {
		p.print(time.Now(), "", fmt.Sprintf("not started, because a step they need failed: %s", kinds(p.skipped)))
	}
}

// sentence describes an event, or returns "" if it is not worth a line.
func (p *plainDisplay) sentence(e converge.Event) string {
	switch e.Kind {
	case converge.Checking:
		return "checking"
	case converge.Acting:
		return verb(e.Diff) + ": " + p.console.line(differences(e.Diff))
	case converge.Waiting:
		return p.console.waitText(e)
	case converge.Progress:
		return p.console.line(e.Message)
	case converge.Changed:
		return "done in " + duration(e.Elapsed)
	case converge.FailedStep:
		return "FAILED: " + strings.Join(p.advice.omitPrinted(p.console.lines(fmt.Sprint(e.Err))), "\n    ")
	case converge.Cancelled:
		if e.Err != nil {
			return "stopped after: " + strings.Join(p.advice.omitPrinted(p.console.lines(fmt.Sprint(e.Err))), "\n    ")
		}
		return "stopped"
	}
	return ""
}

// verb names the action for a difference.
func verb(d converge.Diff) string {
	switch e := d.Effect(); e {
	case converge.Create:
		if !slices.ContainsFunc(d, func(f converge.Field) bool { return f.Effect == e && f.Have == "" }) {
			return "change" // a service that has ended exists already
		}
		return e.String()
	case converge.Remove:
		return e.String()
	case converge.Replace:
		return "replace"
	default:
		return "change"
	}
}

// waitText says what a step waits for.
func (c *Console) waitText(e converge.Event) string {
	if e.Diff.Empty() {
		return "waiting: " + c.line(e.Message)
	}
	return "waiting: " + c.line(describeAwaited(e.Diff))
}

// lines splits foreign text into lines that are safe to print.
func (c *Console) lines(s string) []string {
	var out []string
	for l := range strings.Lines(c.hide(s)) {
		if l = oneLine(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// advice remembers the advice that was printed. The first line of an error says what
// happened, the others what to do.
type advice map[string]bool

// omitPrinted omits advice that was printed before: an error on one node often occurs on all.
func (a advice) omitPrinted(lines []string) []string {
	if len(lines) < 2 {
		return lines
	}
	key := strings.Join(lines[1:], "\n")
	if a[key] {
		return []string{lines[0], "what to do: see above"}
	}
	a[key] = true
	return lines
}

// kinds turns vm/a, vm/b, guest/a into "vm ×2, guest".
func kinds(steps []string) string {
	var all []group[string]
	for _, s := range steps {
		kind, _, _ := strings.Cut(s, "/")
		all = append(all, group[string]{[]string{s}, kind})
	}
	var out []string
	for _, f := range fold(all, func(s string) string { return s }) {
		if n := len(f.names); n > 1 {
			out = append(out, fmt.Sprintf("%s ×%d", f.what, n))
		} else {
			out = append(out, f.what)
		}
	}
	return strings.Join(out, ", ")
}
