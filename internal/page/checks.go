package page

import (
	"fmt"
	"slices"
	"strings"
)

// check is one row of the GPUs' results: a GPU, or all equal ones of a node.
type check struct {
	Result
	GPUs    string // its index, or how many
	State   State
	Words   string
	Trend   *trend
	Remarks []string
}

// trend is a small picture of earlier results.
type trend struct {
	Label string
	Line  string // points of a line of values, oldest first; empty: there are none
	Dots  []dot
}

type dot struct{ X, Y, Class, Title string }

// foldFrom is the number of GPUs from which those of a node that passed share a row.
const foldFrom = 33

func checksOf(results []Result) (out []check, sentence string) {
	passed, worse := 0, 0
	for _, r := range results {
		if r.Passed {
			passed++
		}
		if len(r.Worse) > 0 {
			worse++
		}
	}
	for i := 0; i < len(results); {
		n := 1
		if len(results) >= foldFrom {
			for i+n < len(results) && alike(results[i], results[i+n]) {
				n++
			}
		}
		out = append(out, checkOf(results[i:i+n]))
		i += n
	}
	if len(results) == 0 {
		return nil, ""
	}
	sentence = fmt.Sprintf("%d of %d GPUs passed", passed, len(results))
	if from, to := period(results); to != "" && from == to {
		sentence += " on " + to
	} else if to != "" {
		sentence += " between " + from + " and " + to
	}
	sentence += "."
	if worse > 0 {
		sentence += fmt.Sprintf(" %s worse than before.", plural(worse, "is", "are"))
	}
	return out, sentence
}

// period is when the results are from.
func period(results []Result) (from, to string) {
	first, last := results[0].Time, results[0].Time
	for _, r := range results {
		if r.Time.Before(first) {
			first = r.Time
		}
		if r.Time.After(last) {
			last = r.Time
		}
	}
	if first.IsZero() {
		return "", ""
	}
	const day = "2006-01-02 15:04"
	return first.Format(day), last.Format(day)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// alike reports whether two results may share a row.
func alike(a, b Result) bool {
	return a.Passed && b.Passed && a.Node == b.Node && a.Model == b.Model && a.Driver == b.Driver &&
		a.Memory == b.Memory && a.Note == b.Note && len(a.Worse)+len(b.Worse) == 0 && slices.Equal(a.Better, b.Better)
}

func checkOf(rs []Result) check {
	r := rs[0]
	c := check{Result: r, GPUs: fmt.Sprint(r.Index), State: Good, Words: "passed", Remarks: slices.Clone(r.Better), Trend: trendOf(r.Past)}
	if len(rs) > 1 {
		c.GPUs, c.UUID = fmt.Sprintf("%d–%d", r.Index, rs[len(rs)-1].Index), ""
	}
	if r.Note != "" {
		c.Remarks = append(c.Remarks, r.Note)
	}
	if !r.Passed {
		c.State, c.Words = Bad, "failed"
	} else if len(r.Worse) > 0 {
		c.State = Waiting
	}
	return c
}

const (
	trendWidth, trendHeight = 96, 22
	trendMost               = 12
)

// trendOf draws the last results: their values as a line, or passed and failed as dots.
func trendOf(past []Past) *trend {
	if len(past) < 2 {
		return nil
	}
	past = past[max(0, len(past)-trendMost):]
	low, high, values := past[0].Value, past[0].Value, true
	for _, p := range past {
		low, high, values = min(low, p.Value), max(high, p.Value), values && p.Value > 0
	}
	span := max(high-low, high/8) // what is noise looks like it
	t := &trend{}
	var line []string
	failed := 0
	for i, p := range past {
		x := 4.0
		if len(past) > 1 {
			x += float64(i) * (trendWidth - 8) / float64(len(past)-1)
		}
		y := float64(trendHeight) / 2
		if values {
			y -= (p.Value - (low+high)/2) / span * (trendHeight - 8)
		}
		d := dot{X: fmt.Sprintf("%.1f", x), Y: fmt.Sprintf("%.1f", y), Class: string(Good), Title: p.Time.Format("2006-01-02 15:04") + ": passed"}
		if !p.Passed {
			d.Class, d.Title = string(Bad), p.Time.Format("2006-01-02 15:04")+": failed"
			failed++
		}
		if p.Words != "" {
			d.Title += ", " + p.Words
		}
		t.Dots = append(t.Dots, d)
		line = append(line, d.X+","+d.Y)
	}
	if values && len(past) > 1 {
		t.Line = strings.Join(line, " ")
	}
	t.Label = fmt.Sprintf("%s since %s, %d failed", counted(len(past), "result"), past[0].Time.Format("2006-01-02"), failed)
	return t
}
