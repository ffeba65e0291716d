package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// sayAfter is how long a look at everything takes before it says anything. The time
// between two lines on how far it is grows from there to sayAgain.
const (
	sayAfter = 3 * time.Second
	sayAgain = 15 * time.Second
)

// Looking shows a look at everything, for as long as it takes: nothing in the first
// seconds; from then on what is not as asked as soon as it is seen, and now and then
// how far it is.
type Looking struct {
	console *Console
	all     int

	mu      sync.Mutex
	began   time.Time
	next    *time.Timer
	said    bool     // it took long enough to say something
	ended   int      // looks that are over
	open    []string // steps that are being looked at
	doing   map[string]string
	waiting []string // lines that are said once it takes long
}

// Looking begins to show a look at so many steps. Close ends it.
func (c *Console) Looking(steps int) *Looking {
	l := &Looking{console: c, all: steps, began: time.Now(), doing: map[string]string{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.AfterFunc(sayAfter, l.tick)
	return l
}

// Listen takes an event of [converge.Graph.Look].
func (l *Looking) Listen(e converge.Event) {
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
		if text := l.console.seen(e); text != "" {
			l.waiting = append(l.waiting, fmt.Sprintf("%-22s %s", e.Step, text))
		}
		if l.said {
			l.flush()
		}
	}
}

// seen says what is wrong with a step, or "".
func (c *Console) seen(e converge.Event) string {
	switch e.Kind {
	case converge.Differs:
		return c.line(e.Diff.String())
	case converge.FailedStep:
		return "cannot be seen: " + c.line(fmt.Sprint(e.Err))
	}
	return ""
}

func (l *Looking) flush() {
	for _, line := range l.waiting {
		_, _ = fmt.Fprintf(l.console.Talk, "%s\n", line)
	}
	l.waiting = nil
}

// tick says how far it is.
func (l *Looking) tick() {
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
	_, _ = fmt.Fprintf(l.console.Talk, "looked at %d of %d in %s, now at %s\n", l.ended, l.all, short(time.Since(l.began)), strings.Join(at, ", "))
	l.next = time.AfterFunc(min(time.Since(l.began), sayAgain), l.tick)
}

// Close ends it. What was held back until then is in the result.
func (l *Looking) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.Stop()
	l.next = nil
}
