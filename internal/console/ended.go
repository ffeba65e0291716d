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

// end takes note of a step's end: a failure is told at once, all else when the part
// that it belongs to is done.
func (l *live) end(s *liveStep, e converge.Event) {
	p := s.part
	l.ended, p.open = l.ended+1, p.open-1
	if e.Kind == converge.FailedStep {
		l.fail(s, l.advice.once(l.console.lines(fmt.Sprint(e.Err))))
	}
	switch {
	case p.name == everywhere && e.Kind == converge.Changed:
		l.tell(p, s.took, []*liveStep{s})
	case p.open == 0:
		l.endPart(p, e.Time)
	}
}

// failure is an error that was told, and how much had been told by then.
type failure struct{ above, told int }

// fail tells an error in full.
func (l *live) fail(s *liveStep, lines []string) {
	before := len(l.told)
	l.hang("✗ ", fmt.Sprintf("%s: %s failed after %s", s.part.name, s.what, short(s.took)), l.paint.red)
	for _, line := range lines {
		l.hang("    ", line, nil)
	}
	l.failures = append(l.failures, failure{before, len(l.told)})
}

// close tells what is unfinished, in the order of the file, and once more the errors
// that are out of sight.
func (l *live) close(height int) {
	var partial []folded[string]
	for _, p := range l.parts {
		if p.unfinished != "" {
			partial = append(partial, folded[string]{[]string{p.name}, p.unfinished})
		}
	}
	for _, p := range fold(partial, func(s string) string { return s }) {
		l.hang("- ", several(p.names)+": "+p.what, l.paint.faint)
	}
	const below = 4 // what a command says after us
	seen := len(l.told) - (height - below)
	for _, f := range l.failures {
		if f.above < seen {
			l.told = append(l.told, l.told[f.above:f.told]...)
		}
	}
}

// endPart tells how a part went, once. Those that could not be finished are told
// together at the very end, where they say what is left to do.
func (l *live) endPart(p *livePart, now time.Time) {
	var done []*liveStep
	var words, stopped, missing []string
	failed := false
	for _, s := range p.steps {
		switch s.kind {
		case converge.Changed:
			if p.name != everywhere { // whose steps were told one by one
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
		words = append(words, "not begun: "+strings.Join(missing, ", "))
	case len(done) > 0 && !failed:
		l.tell(p, now.Sub(p.began), done)
		return
	}
	p.unfinished = strings.Join(words, " · ")
}

// tell prints a part that is done, in one line: what took longest, as far as there is
// room, in the order in which it was done.
func (l *live) tell(p *livePart, took time.Duration, done []*liveStep) {
	width, _ := l.screen.size()
	head := fmt.Sprintf("%s %6s  ", pad(p.name, l.names(width)), short(took))
	room := width - 1 - 2 - runewidth.StringWidth(head)
	line := said(done)
	if len(done) == 1 { // how long is said already
		line = done[0].what
	}
	longest := slices.SortedStableFunc(slices.Values(done), func(a, b *liveStep) int { return cmp.Compare(b.took, a.took) })
	for n := len(done) - 1; n > 0 && runewidth.StringWidth(line) > room; n-- {
		some := slices.DeleteFunc(slices.Clone(done), func(s *liveStep) bool { return !slices.Contains(longest[:n], s) })
		line = fmt.Sprintf("%s · %d more", said(some), len(done)-n)
	}
	l.told = append(l.told, l.paint.green("✓ ")+head+l.paint.faint(cut(line, room)))
}

// said lists steps with how long they took, if that was worth a word.
func said(steps []*liveStep) string {
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

// hang prints a text whose further lines stand below its first.
func (l *live) hang(mark, text string, paint func(string) string) {
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
