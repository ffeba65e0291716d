package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// sayAfter is how long a check of everything takes before it prints anything. The time
// between two lines of progress grows from there to sayAgain.
const (
	sayAfter = 2 * time.Second
	sayAgain = 15 * time.Second
)

// CheckProgress shows the progress of a check of everything: nothing in the first seconds, then
// each difference as soon as it is found, and progress from time to time.
type CheckProgress struct {
	console *Console
	all     int

	mu      sync.Mutex
	began   time.Time
	next    *time.Timer
	said    bool     // it took long enough to say something
	ended   int      // finished checks
	open    []string // steps being checked
	doing   map[string]string
	waiting []string // lines to print once it takes long
}

// CheckProgress starts to show a check of so many steps. Close ends it.
func (c *Console) CheckProgress(steps int) *CheckProgress {
	l := &CheckProgress{console: c, all: steps, began: time.Now(), doing: map[string]string{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.AfterFunc(sayAfter, l.tick)
	return l
}

// Listen takes an event of [converge.Graph.PlanWithEvents].
func (l *CheckProgress) Listen(e converge.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Kind == converge.Checking:
		l.open = append(l.open, e.Step)
	case e.Kind == converge.Progress:
		l.doing[e.Step] = l.console.line(e.Message)
	case e.Kind.Final():
		l.ended++
		l.open = slices.DeleteFunc(l.open, func(step string) bool { return step == e.Step })
		if text := l.console.problemText(e); text != "" {
			l.waiting = append(l.waiting, fmt.Sprintf("%-22s %s", e.Step, text))
		}
		if l.said {
			l.flush()
		}
	}
}

// problemText says what is wrong with a step, or returns "".
func (c *Console) problemText(e converge.Event) string {
	switch e.Kind {
	case converge.Differs:
		return c.line(e.Diff.String())
	case converge.FailedStep:
		return "check failed: " + c.line(fmt.Sprint(e.Err))
	}
	return ""
}

func (l *CheckProgress) flush() {
	for _, line := range l.waiting {
		_, _ = fmt.Fprintf(l.console.Talk, "%s\n", line)
	}
	l.waiting = nil
}

// tick prints the progress.
func (l *CheckProgress) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		return
	}
	l.said = true
	l.flush()
	var at []string
	slices.Sort(l.open)
	for _, step := range l.open[:min(3, len(l.open))] {
		if doing := l.doing[step]; doing != "" {
			step += " (" + doing + ")"
		}
		at = append(at, step)
	}
	if more := len(l.open) - len(at); more > 0 {
		at = append(at, fmt.Sprintf("%d more", more))
	}
	_, _ = fmt.Fprintf(l.console.Talk, "checked %d of %d in %s, now checking %s\n", l.ended, l.all, duration(time.Since(l.began)),
		strings.Join(at, ", "))
	l.next = time.AfterFunc(min(time.Since(l.began), sayAgain), l.tick)
}

// Close ends the display. Lines that were held back are in the result as well.
func (l *CheckProgress) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.Stop()
	l.next = nil
}
