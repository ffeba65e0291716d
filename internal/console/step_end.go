package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/cps-gpu/homelab/converge"
)

// end records the end of a step. A failure is printed at once, everything else when its part
// is done.
func (l *liveDisplay) end(s *liveStep, e converge.Event) {
	p := s.part
	l.ended, p.open = l.ended+1, p.open-1
	if e.Kind == converge.FailedStep {
		l.fail(s, l.advice.omitPrinted(l.console.lines(fmt.Sprint(e.Err))))
	}
	switch {
	case p.name == everywhere && e.Kind == converge.Changed:
		l.printFinished(p, s.took, []*liveStep{s})
	case p.open == 0:
		l.endPart(p, e.Time)
	}
}

// failure is an error that was printed, and how many lines there were by then.
type failure struct{ above, told int }

// fail prints an error in full.
func (l *liveDisplay) fail(s *liveStep, lines []string) {
	before := len(l.told)
	l.printIndented("✗ ", fmt.Sprintf("%s: %s failed after %s", s.part.name, s.what, duration(s.took)), l.paint.red)
	for _, line := range lines {
		l.printIndented("    ", line, nil)
	}
	l.failures = append(l.failures, failure{before, len(l.told)})
}

// close prints what is unfinished, in the order of the file, and repeats the errors that
// have scrolled out of sight.
func (l *liveDisplay) close(height int) {
	var partial []group[string]
	for _, p := range l.parts {
		if p.unfinished != "" {
			partial = append(partial, group[string]{[]string{p.name}, p.unfinished})
		}
	}
	for _, p := range fold(partial, func(s string) string { return s }) {
		l.printIndented("- ", shortList(p.names)+": "+p.what, l.paint.faint)
	}
	const below = 4 // lines that the command prints afterwards
	seen := len(l.told) - (height - below)
	for _, f := range l.failures {
		if f.above < seen {
			l.told = append(l.told, l.told[f.above:f.told]...)
		}
	}
}

// endPart prints the outcome of a part, once. Unfinished parts are printed together at the
// very end, with what is left to do.
func (l *liveDisplay) endPart(p *livePart, now time.Time) {
	var done []*liveStep
	var words, stopped, missing []string
	failed := false
	for _, s := range p.steps {
		switch s.kind {
		case converge.Changed:
			if p.name != everywhere { // whose steps were printed one by one
				done, words = append(done, s), append(words, s.what)
			}
		case converge.Cancelled:
			stopped = append(stopped, s.what)
		case converge.Skipped:
			missing = append(missing, s.what)
		case converge.FailedStep:
			failed = true
		}
	}
	switch {
	case len(stopped) > 0:
		words = append(words, "stopped at "+strings.Join(stopped, ", "))
	case len(missing) > 0:
		words = append(words, "not started: "+strings.Join(missing, ", "))
	case len(done) > 0 && !failed:
		l.printFinished(p, now.Sub(p.began), done)
		return
	}
	p.unfinished = strings.Join(words, " · ")
}

// printFinished prints a finished part on one line: the steps that took longest, as many as fit, in
// the order of the run.
func (l *liveDisplay) printFinished(p *livePart, took time.Duration, done []*liveStep) {
	width, _ := l.screen.size()
	head := fmt.Sprintf("%s %6s  ", pad(p.name, l.names(width)), duration(took))
	room := width - 1 - 2 - runewidth.StringWidth(head)
	line := stepsText(done)
	if len(done) == 1 { // the duration is there already
		line = done[0].what
	}
	longest := slices.SortedStableFunc(slices.Values(done), func(a, b *liveStep) int { return cmp.Compare(b.took, a.took) })
	for n := len(done) - 1; n > 0 && runewidth.StringWidth(line) > room; n-- {
		some := slices.DeleteFunc(slices.Clone(done), func(s *liveStep) bool { return !slices.Contains(longest[:n], s) })
		line = fmt.Sprintf("%s · %d more", stepsText(some), len(done)-n)
	}
	l.told = append(l.told, l.paint.green("✓ ")+head+l.paint.faint(truncate(line, room)))
}

// stepsText lists steps, with their durations from one second on.
func stepsText(steps []*liveStep) string {
	var out []string
	for _, s := range steps {
		if s.took < time.Second {
			out = append(out, s.what)
		} else {
			out = append(out, s.what+" "+clock(s.took.Round(time.Second)))
		}
	}
	return strings.Join(out, " · ")
}

// printIndented prints a text whose further lines align with its first.
func (l *liveDisplay) printIndented(mark, text string, paint func(string) string) {
	width, _ := l.screen.size()
	at := runewidth.StringWidth(mark)
	for i, line := range wrap(text, at, width-1) {
		if i > 0 {
			mark = strings.Repeat(" ", at)
		}
		line = mark + line
		if paint != nil {
			line = paint(line)
		}
		l.told = append(l.told, line)
	}
}
