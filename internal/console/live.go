package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/cps-gpu/homelab/converge"
)

// refresh is the time between two updates of the screen.
const refresh = 120 * time.Millisecond

// liveDisplay shows a row for each part in progress, in the order of the file. Finished parts are
// printed above: one line for a node, when its last step has ended.
type liveDisplay struct {
	console *Console
	paint   paint
	screen  *screen
	stop    chan struct{}
	stopped chan struct{}

	announced []string // names of the steps

	mu       sync.Mutex
	began    time.Time
	parts    []*livePart
	steps    map[string]*liveStep
	widest   struct{ name, what int }
	ended    int
	told     []string // lines to print above the rows
	shown    int      // how many of them are printed
	failures []failure
	advice   advice
}

// livePart is a node, a host, or the cluster as a whole.
type livePart struct {
	name  string
	began time.Time
	steps []*liveStep // in the order of the run
	open  int         // how many steps have not ended

	unfinished string // what is missing when all steps have ended
}

// liveStep is the known state of a step.
type liveStep struct {
	part    *livePart
	what    string
	kind    converge.Kind // "" before it started
	began   time.Time
	took    time.Duration
	message string
}

func newLive(c *Console, steps []string) *liveDisplay {
	l := &liveDisplay{
		console: c, paint: c.talk.paint,
		screen: &screen{to: c.Talk, size: c.talk.size, linesAdded: c.linesAdded},
		stop:   make(chan struct{}), stopped: make(chan struct{}),
		announced: steps, began: time.Now(),
	}
	l.reset()
	go l.run()
	return l
}

// reset clears all that is known.
func (l *liveDisplay) reset() {
	l.parts, l.steps, l.ended, l.failures, l.advice = nil, map[string]*liveStep{}, 0, nil, advice{}
	for _, name := range partsOf(l.announced) {
		l.parts = append(l.parts, &livePart{name: name})
	}
	for _, s := range l.announced {
		l.step(s)
	}
}

// Reset forgets the events so far; printed lines stay.
func (l *liveDisplay) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

// run draws until Close.
func (l *liveDisplay) run() {
	defer close(l.stopped)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.draw()
		}
	}
}

func (l *liveDisplay) draw() {
	width, height := l.screen.size()
	l.mu.Lock()
	above, rows := l.told[l.shown:], l.rows(time.Now(), width, height)
	l.shown = len(l.told)
	l.mu.Unlock()
	l.screen.draw(above, rows)
}

// Close removes the rows, and returns when the screen is up to date.
func (l *liveDisplay) Close() {
	close(l.stop)
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	_, height := l.screen.size()
	l.close(height)
	l.screen.draw(l.told[l.shown:], nil)
}

// step returns the state of a step, also of an unannounced one.
func (l *liveDisplay) step(name string) *liveStep {
	if s := l.steps[name]; s != nil {
		return s
	}
	whose, what := Owner(name)
	i := slices.IndexFunc(l.parts, func(p *livePart) bool { return p.name == whose })
	if i < 0 {
		i = len(l.parts)
		l.parts = append(l.parts, &livePart{name: whose})
	}
	l.widest.name = max(l.widest.name, runewidth.StringWidth(whose))
	l.widest.what = max(l.widest.what, runewidth.StringWidth(what))
	p := l.parts[i]
	s := &liveStep{part: p, what: what}
	l.steps[name], p.steps, p.open = s, append(p.steps, s), p.open+1
	return s
}

// Listen records an event. It never waits for the terminal.
func (l *liveDisplay) Listen(e converge.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.step(e.Step)
	if s.kind.Final() {
		return
	}
	if s.kind == "" {
		s.began = e.Time
		if e.Kind != converge.Skipped && s.part.began.IsZero() {
			s.part.began = e.Time
		}
	}
	if e.Kind != converge.Progress || s.kind == "" || s.kind == converge.Waiting {
		s.kind = e.Kind // an action that reports is still one
	}
	switch e.Kind {
	case converge.Acting:
		s.message = l.console.line(differences(e.Diff))
	case converge.Waiting:
		s.message = l.console.waitText(e)
	case converge.Progress:
		s.message = l.console.line(e.Message)
	}
	if e.Kind.Final() {
		s.took = e.Elapsed
		l.end(s, e)
	}
}

// rows returns the parts in progress, then the progress of the whole run.
func (l *liveDisplay) rows(now time.Time, width, height int) []row {
	var parts []*livePart
	names, whats := l.names(width), min(l.widest.what, max(8, width/6))
	for _, p := range l.parts {
		if !p.began.IsZero() && p.open > 0 && (p.name != everywhere || p.isBusy()) {
			parts = append(parts, p)
		}
	}
	if l.ended == 0 && len(parts) == 0 {
		return nil
	}
	shown, more := crowd(parts, max(1, min(height*2/3, height-3)), (*livePart).isBusy)
	var rows []row
	for _, p := range shown {
		rows = append(rows, l.row(p, now, width, names, whats))
	}
	if more > 0 {
		rows = append(rows, newRow(width, span{fmt.Sprintf("  … and %d more", more), l.paint.faint}))
	}
	return append(rows, l.footer(now, width))
}

// row describes a part: its name, its current step, for how long, and the latest message.
func (l *liveDisplay) row(p *livePart, now time.Time, width, names, whats int) row {
	s := p.shownStep()
	if s == nil {
		return newRow(width, span{"· " + pad(p.name, names) + "  ", l.paint.faint},
			span{pad("next: "+p.next(), whats+7) + "  " + p.changesText(), l.paint.faint})
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	spin := string(frames[now.UnixMilli()/refresh.Milliseconds()%int64(len(frames))])
	return newRow(width,
		span{spin + " ", l.paint.cyan}, span{pad(p.name, names) + "  ", l.paint.bold},
		span{pad(s.what, whats), l.paint.cyan},
		span{fmt.Sprintf(" %6s  ", clock(now.Sub(s.began))), nil},
		span{s.message, nil})
}

// footer shows the progress of the run.
func (l *liveDisplay) footer(now time.Time, width int) row {
	const long = 24
	total := len(l.steps)
	full := l.ended * long / max(1, total)
	spans := []span{
		{"  " + strings.Repeat("━", full), l.paint.green}, {strings.Repeat("─", long-full), l.paint.faint},
		{fmt.Sprintf("  %d of %d steps  %s", l.ended, total, clock(now.Sub(l.began))), l.paint.faint},
	}
	if n := len(l.failures); n > 0 {
		spans = append(spans, span{fmt.Sprintf("  %d failed", n), l.paint.red})
	}
	return newRow(width, spans...)
}

// names is the width of the column of names.
func (l *liveDisplay) names(width int) int { return min(l.widest.name, max(8, width/4)) }

// isBusy reports whether anything of the part is being done.
func (p *livePart) isBusy() bool { return p.shownStep() != nil }

// shownStep is the step to show: one that acts rather than one that checks.
func (p *livePart) shownStep() *liveStep {
	var at *liveStep
	for _, s := range p.steps {
		switch {
		case s.kind == "" || s.kind.Final():
		case at == nil, at.kind == converge.Checking && s.kind != converge.Checking:
			at = s
		}
	}
	return at
}

// next is the first step that waits for others.
func (p *livePart) next() string {
	for _, s := range p.steps {
		if s.kind == "" {
			return s.what
		}
	}
	return ""
}

// changesText lists the changes so far.
func (p *livePart) changesText() string {
	return stepsText(slices.DeleteFunc(slices.Clone(p.steps), func(s *liveStep) bool { return s.kind != converge.Changed }))
}
