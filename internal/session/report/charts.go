package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/printable"
)

// chart is a small picture of earlier results, beside the latest one.
type chart struct {
	Name, Words string // of what was measured; empty: of passes and failures
	Slower      bool
	Label       string // for who cannot see it; empty: there is no picture
	Line        string // points of a line of values, oldest first; empty: there are none
	Dots        []dot
}

type dot struct{ X, Y, Class, Title string }

const (
	chartWidth, chartHeight = 96, 22
	chartMost               = 12
)

// chartsOf draws a result: each of its measures, or else passes and failures. Small ones have
// only the main measure, without a dot for each value.
func chartsOf(r Result, small bool) (out []*chart) {
	if len(r.Trends) == 0 {
		if c := (&chart{}); c.draw(r.Past, false) {
			out = append(out, c)
		}
		return out
	}
	for i, t := range r.Trends {
		if small && i > 0 {
			break
		}
		c := &chart{Name: t.Name, Words: t.Words, Slower: t.Slower}
		c.draw(t.Past, small)
		out = append(out, c)
	}
	return out
}

// passHistory are the passes and failures of several results: a run failed if one of them did.
func passHistory(rs []Result) []PastResult {
	failed := map[time.Time]bool{}
	for _, r := range rs {
		for _, p := range r.Past {
			failed[p.Time] = failed[p.Time] || !p.Passed
		}
	}
	out := slices.Clone(rs[0].Past)
	for i := range out {
		out[i] = PastResult{Time: out[i].Time, Passed: !failed[out[i].Time]}
	}
	return out
}

// draw draws the last results: their values as a line, or passed and failed as dots. It reports
// whether there are enough of them.
func (c *chart) draw(past []PastResult, small bool) bool {
	if len(past) < 2 {
		return false
	}
	past = past[max(0, len(past)-chartMost):]
	low, high, values := past[0].Value, past[0].Value, true
	for _, p := range past {
		low, high, values = min(low, p.Value), max(high, p.Value), values && p.Value > 0
	}
	span := max(high-low, high/8) // what is noise looks like it
	var line []string
	failed := 0
	for i, p := range past {
		x, y := 4+float64(i)*(chartWidth-8)/float64(len(past)-1), float64(chartHeight)/2
		if values {
			y -= (p.Value - (low+high)/2) / span * (chartHeight - 8)
		}
		digits := 1
		if small {
			digits = 0
		}
		d := dot{X: fmt.Sprintf("%.*f", digits, x), Y: fmt.Sprintf("%.*f", digits, y), Class: string(Good), Title: p.Time.Format("2006-01-02 15:04") + ": passed"}
		last := i == len(past)-1
		switch {
		case !p.Passed:
			d.Class, d.Title = string(Bad), p.Time.Format("2006-01-02 15:04")+": failed"
			failed++
		case last && c.Slower:
			d.Class = string(Waiting)
		}
		if p.Words != "" {
			d.Title += ", " + p.Words
		}
		if small {
			d.Title = ""
		}
		if !small || last || !p.Passed {
			c.Dots = append(c.Dots, d)
		}
		line = append(line, d.X+","+d.Y)
	}
	if values {
		c.Line = strings.Join(line, " ")
	}
	c.Label = fmt.Sprintf("%s since %s, %d failed", printable.Count(len(past), "result"), past[0].Time.Format("2006-01-02"), failed)
	return true
}
