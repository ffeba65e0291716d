package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/printable"
)

// timeline is a run as the document draws it: a lane for each machine, a bar for each step.
type timeline struct {
	Took     string
	Steps    int
	Counts   []count // how many steps ended how
	Ticks    []tick
	Lanes    []lane
	Critical []link
	Label    string // for readers who do not see it
	Short    string // about steps of the critical path that took hardly any time
	// Rest is how long the run took beside its critical path, if that is much.
	Rest string
}

type count struct {
	N   int
	End string
}

type tick struct{ X, Text string }

type lane struct {
	Name   string
	Height int
	Bars   []bar
}

// bar is a step, in percent of the run's time.
type bar struct {
	X, W     string
	Y        int
	Class    string
	Title    string
	Label    string // empty: it does not fit
	critical bool
}

// link is a step of the critical path.
type link struct {
	Lane, What, Took, Share string
	X, W                    string
}

const (
	barHeight  = 14
	laneMargin = 4
	// percentPixels is how wide a hundredth of the run is drawn on A4 paper, and letterPixels how
	// wide a letter of a label is.
	percentPixels, letterPixels = 5.4, 5.8
)

// timelineOf lays out a run; nil if no step started.
func timelineOf(r *Run) *timeline {
	if r == nil || len(r.Steps) == 0 {
		return nil
	}
	whole := r.Ended.Sub(r.Started)
	if whole <= 0 {
		return nil
	}
	t := &timeline{Took: FormatDuration(whole), Steps: len(r.Steps), Ticks: ticks(whole)}
	at := func(d time.Duration) string { return percent(float64(d) / float64(whole)) }
	path := critical(r.Steps)
	on := map[string]bool{}
	var sum, rest time.Duration
	short := 0
	for _, s := range path {
		on[s.Name] = true
		took := s.Ended.Sub(s.Started)
		if sum += took; took < whole/200 {
			short, rest = short+1, rest+took
			continue
		}
		t.Critical = append(t.Critical, link{
			Lane: s.Lane, What: s.What, Took: FormatDuration(took), Share: fmt.Sprintf("%.0f %%", 100*float64(took)/float64(whole)),
			X: at(s.Started.Sub(r.Started)), W: at(took),
		})
	}
	if short > 0 {
		t.Short = fmt.Sprintf("Left out: %s of less than half a percent each, %s together.", printable.Count(short, "step"), FormatDuration(rest))
	}
	if other := whole - sum; other > whole/20 {
		t.Rest = FormatDuration(other)
	}
	t.addSteps(r, on, whole)
	for _, end := range []string{Changed, Unchanged, Failed, Skipped, Cancelled} {
		n := 0
		for _, s := range r.Steps {
			if s.End == end {
				n++
			}
		}
		if n > 0 {
			t.Counts = append(t.Counts, count{n, end})
		}
	}
	t.Label = fmt.Sprintf("%d steps in %s, by machine and time", t.Steps, t.Took)
	return t
}

// addSteps puts each step that started into the lane of its machine. Steps of a machine that
// overlap are drawn below each other.
func (t *timeline) addSteps(r *Run, critical map[string]bool, whole time.Duration) {
	index := map[string]int{}
	rows := map[string][]time.Time{} // when each row of a lane is free again
	steps := slices.Clone(r.Steps)
	for _, s := range steps { // lanes are in the order of the run
		if _, ok := index[s.Lane]; !ok && started(s) {
			index[s.Lane] = len(t.Lanes)
			t.Lanes = append(t.Lanes, lane{Name: s.Lane})
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Started.Compare(b.Started) })
	for _, s := range steps {
		if !started(s) {
			continue
		}
		free := rows[s.Lane]
		row := slices.IndexFunc(free, func(until time.Time) bool { return !until.After(s.Started) })
		if row < 0 {
			row = len(free)
			free = append(free, time.Time{})
		}
		free[row] = s.Ended
		rows[s.Lane] = free
		took := s.Ended.Sub(s.Started)
		b := bar{
			X: percent(float64(s.Started.Sub(r.Started)) / float64(whole)),
			W: percent(max(0.002, float64(took)/float64(whole))), // not thinner than can be seen
			Y: row*(barHeight+2) + laneMargin, Class: s.End, critical: critical[s.Name],
			Title: fmt.Sprintf("%s: %s, %s after %s", s.Name, s.End, FormatDuration(took), FormatDuration(s.Started.Sub(r.Started))),
		}
		if took < whole/250 {
			b.Class += " tiny"
		}
		if b.critical {
			b.Class += " critical"
			b.Title += ", on the critical path"
		}
		if s.Error != "" {
			b.Title += ": " + firstLine(s.Error)
		}
		if 100*float64(took)/float64(whole)*percentPixels > float64(len([]rune(s.What)))*letterPixels+8 {
			b.Label = s.What
		}
		l := &t.Lanes[index[s.Lane]]
		l.Bars = append(l.Bars, b)
	}
	for i := range t.Lanes {
		t.Lanes[i].Height = len(rows[t.Lanes[i].Name])*(barHeight+2) - 2 + 2*laneMargin
	}
}

func started(s Step) bool {
	return !s.Started.IsZero() && s.End != Skipped && !s.Ended.Before(s.Started)
}

// critical is the chain of steps that determined when the run ended: the step that ended last,
// before it the one of its needs that ended last, and so on. No other step could have been
// shorter to any effect.
func critical(steps []Step) []Step {
	by := map[string]Step{}
	var last Step
	for _, s := range steps {
		by[s.Name] = s
		if started(s) && (last.Name == "" || s.Ended.After(last.Ended)) {
			last = s
		}
	}
	var path []Step
	for s := last; s.Name != ""; {
		path = append(path, s)
		delete(by, s.Name)
		var before Step
		for _, need := range s.Needs {
			if n, ok := by[need]; ok && started(n) && (before.Name == "" || n.Ended.After(before.Ended)) {
				before = n
			}
		}
		s = before
	}
	slices.Reverse(path)
	return path
}

// ticks are round times over a run: not more than eight.
func ticks(whole time.Duration) []tick {
	steps := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour}
	i, _ := slices.BinarySearchFunc(steps, whole/8, func(s, least time.Duration) int { return cmp.Compare(s, least) })
	step := steps[min(i, len(steps)-1)]
	var out []tick
	for at := time.Duration(0); at < whole-whole/25 && len(out) < 60; at += step {
		out = append(out, tick{X: percent(float64(at) / float64(whole)), Text: FormatDuration(at)})
	}
	return out
}

func percent(part float64) string {
	s := fmt.Sprintf("%.2f", 100*part)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + "%"
}

// FormatDuration formats a duration: 0 s, 0.3 s, 12 s, 3 min 05 s, 1 h 02 min.
func FormatDuration(d time.Duration) string {
	switch s := int(d.Round(time.Second) / time.Second); {
	case d == 0:
		return "0 s"
	case d < 100*time.Millisecond:
		return "<0.1 s"
	case d < 9950*time.Millisecond:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600 && s%60 == 0:
		return fmt.Sprintf("%d min", s/60)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s%3600 < 60:
		return fmt.Sprintf("%d h", s/3600)
	default:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
