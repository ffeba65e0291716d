package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/cps-gpu/homelab/converge"
)

const refresh = 120 * time.Millisecond

// live shows one line for each subject that has a step under way, and prints what
// ended above them. Steps that found nothing to do leave no trace but a count.
type live struct {
	progress *mpb.Progress
	to       io.Writer

	mu        sync.Mutex
	rows      map[string]*row // by subject
	unchanged int
}

// row is the line of one subject, e.g. of a node.
type row struct {
	bar     *mpb.Bar
	mu      sync.Mutex
	running []*running // of this subject, oldest first
}

type running struct {
	step, message string
	acting        bool
	since         time.Time
}

func newLive(to io.Writer) *live {
	return &live{
		progress: mpb.New(mpb.WithOutput(to), mpb.WithRefreshRate(refresh), mpb.WithAutoRefresh()),
		to:       to, rows: map[string]*row{},
	}
}

func (l *live) Listen(e converge.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := subject(e.Step)
	if e.Kind.Final() {
		l.end(name, e)
		return
	}
	r := l.rows[name]
	if r == nil {
		r = &row{}
		l.rows[name] = r
		r.bar = l.progress.MustAdd(1, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			_, err := io.WriteString(w, r.text(name, s.AvailableWidth))
			return err
		}), mpb.BarRemoveOnComplete(), mpb.BarFillerTrim())
	}
	r.update(e)
}

// end takes a step off its row, and the row off the screen when it was the last.
func (l *live) end(name string, e converge.Event) {
	if r := l.rows[name]; r != nil && r.drop(e.Step) {
		r.bar.Abort(true)
		delete(l.rows, name)
	}
	switch e.Kind {
	case converge.Unchanged:
		l.unchanged++
	case converge.Changed:
		l.print("\x1b[32m✓\x1b[0m %-26s \x1b[2m%s\x1b[0m", e.Step, short(e.Elapsed))
	case converge.FailedStep:
		l.print("\x1b[31m✗\x1b[0m %-26s %s", e.Step, oneLine(fmt.Sprint(e.Err)))
	case converge.Skipped:
		l.print("\x1b[2m- %-26s skipped, %s\x1b[0m", e.Step, e.Message)
	}
}

func (l *live) print(format string, args ...any) {
	_, _ = fmt.Fprintf(l.progress, format+"\n", args...)
}

// Close takes the rows down and waits until the last frame is on the screen.
func (l *live) Close() {
	l.mu.Lock()
	for _, r := range l.rows {
		r.bar.Abort(true)
	}
	l.rows = map[string]*row{}
	unchanged := l.unchanged
	l.mu.Unlock()
	l.progress.Wait()
	if unchanged > 0 {
		_, _ = fmt.Fprintf(l.to, "\x1b[2m%d steps found nothing to do\x1b[0m\n", unchanged)
	}
}

func (r *row) update(e converge.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var at *running
	for _, x := range r.running {
		if x.step == e.Step {
			at = x
		}
	}
	if at == nil {
		at = &running{step: e.Step, since: e.Time}
		r.running = append(r.running, at)
	}
	switch e.Kind {
	case converge.Acting:
		at.acting, at.message = true, oneLine(e.Diff.String())
	case converge.Waiting:
		at.acting, at.message = true, "waiting: "+oneLine(e.Message)
	case converge.Progress:
		at.message = oneLine(e.Message)
	}
}

// drop removes a step and reports whether none is left.
func (r *row) drop(step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, x := range r.running {
		if x.step == step {
			r.running = append(r.running[:i], r.running[i+1:]...)
			break
		}
	}
	return len(r.running) == 0
}

// text is the row as it looks now: a spinner, who, what, how long, and in words.
func (r *row) text(name string, width int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) == 0 {
		return ""
	}
	x := r.running[0]
	for _, y := range r.running { // one that acts tells more than one that looks
		if y.acting && !x.acting {
			x = y
		}
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	spin := frames[time.Now().UnixMilli()/refresh.Milliseconds()%int64(len(frames))]
	what := strings.TrimSuffix(x.step, "/"+name)
	head := fmt.Sprintf("%c %-14s %-12s %6s  ", spin, name, what, short(time.Since(x.since)))
	rest := max(0, width-runewidth.StringWidth(head)-1)
	return "\x1b[36m" + head + "\x1b[0m" + runewidth.Truncate(x.message, rest, "…")
}
