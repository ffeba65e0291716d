package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// checkRow is one row of the results: a GPU, or all equal ones of a machine, or a machine.
type checkRow struct {
	Result
	GPUs    string // its index, or how many
	State   State
	Words   string
	Title   string  // all machines, if Node is shortened
	Found   []Check // that did not pass
	Fine    string  // the names of those that did
	Charts  []*chart
	Remarks []string
}

// foldFrom is the number of results from which those that passed share rows, and charts are small.
const foldFrom = 33

// checksOf returns the rows, what is wrong first, and what they say in a sentence.
func checksOf(results []Result) (out []checkRow, sentence string) {
	if len(results) == 0 {
		return nil, ""
	}
	many := len(results) >= foldFrom
	results = sortResults(results, many)
	for i := 0; i < len(results); {
		n := 1
		for many && i+n < len(results) && mayShareRow(results[i], results[i+n]) {
			n++
		}
		out = append(out, checkOf(results[i:i+n], many))
		i += n
	}
	return out, sentenceOf(results)
}

// sortResults puts what is wrong first; else the results of a machine are together. Where there are
// many, those of whole machines that passed come last, so that they can share a row.
func sortResults(results []Result, many bool) []Result {
	order := map[string]int{}
	for _, r := range results {
		if _, ok := order[r.Node]; !ok {
			order[r.Node] = len(order)
		}
	}
	rank := func(r Result) int {
		switch state := r.state(); {
		case state == Bad:
			return 0
		case state == Waiting:
			return 1
		case many && r.Index == Whole:
			return 3
		}
		return 2
	}
	return slices.SortedStableFunc(slices.Values(results), func(a, b Result) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(order[a.Node], order[b.Node]), cmp.Compare(a.Index, b.Index))
	})
}

func (r Result) state() State {
	switch {
	case !r.Passed:
		return Bad
	case len(r.Worse) > 0 || slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State == Waiting }):
		return Waiting
	}
	return Good
}

func sentenceOf(results []Result) string {
	passed, all, worse := [2]int{}, [2]int{}, 0 // of GPUs, and of machines
	for _, r := range results {
		kind := 0
		if r.Index == Whole {
			kind = 1
		}
		if all[kind]++; r.Passed {
			passed[kind]++
		}
		if len(r.Worse) > 0 {
			worse++
		}
	}
	text := "No GPU has reported a result"
	if all[0] > 0 {
		text = fmt.Sprintf("%d of %d GPUs passed", passed[0], all[0])
	}
	if from, to := period(results); to != "" && from == to {
		text += " on " + to
	} else if to != "" {
		text += " between " + from + " and " + to
	}
	text += "."
	if all[1] > 0 {
		text += fmt.Sprintf(" Checks of the whole machine passed on %d of %d.", passed[1], all[1])
	}
	if worse > 0 {
		verb := map[bool]string{true: "is", false: "are"}[worse == 1]
		text += fmt.Sprintf(" %s %s worse than before.", printable.Count(worse, "result"), verb)
	}
	return text
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

// mayShareRow reports whether two results may share a row: of GPUs of a machine, or of machines.
func mayShareRow(a, b Result) bool {
	return a.state() == Good && b.state() == Good && (a.Index == Whole) == (b.Index == Whole) && (a.Node == b.Node || a.Index == Whole) &&
		a.Model == b.Model && a.Driver == b.Driver && a.Memory == b.Memory && a.Note == b.Note && slices.Equal(a.Better, b.Better) && slices.Equal(a.Checks, b.Checks)
}

func checkOf(rs []Result, small bool) checkRow {
	r := rs[0]
	c := checkRow{Result: r, GPUs: fmt.Sprint(r.Index), State: r.state(), Words: "passed", Remarks: slices.Clone(r.Better)}
	var nodes []string
	for _, x := range rs {
		nodes = append(nodes, x.Node)
	}
	switch {
	case r.Index == Whole:
		c.GPUs = "all"
		c.Node, c.Title = shortList(nodes)
	case len(rs) > 1:
		c.GPUs, c.UUID = fmt.Sprintf("%d–%d", r.Index, rs[len(rs)-1].Index), ""
	}
	if len(rs) == 1 {
		c.Charts = chartsOf(r, small)
	} else {
		c.Charts = chartsOf(Result{Past: passHistory(rs)}, small)
	}
	if r.Note != "" {
		c.Remarks = append(c.Remarks, r.Note)
	}
	if !r.Passed {
		c.Words = "failed"
	}
	var fine []string
	for _, one := range r.Checks {
		if one.State == Good {
			fine = append(fine, one.Name)
		} else if c.Found = append(c.Found, one); one.State == Bad {
			c.Detail = "" // it is this one
		}
	}
	slices.SortStableFunc(c.Found, func(a, b Check) int { return cmp.Compare(gravity(a.State), gravity(b.State)) })
	if len(fine) > 0 {
		c.Fine = strings.Join(fine, ", ") + " passed"
	}
	return c
}

func gravity(s State) int { return slices.Index([]State{Bad, Waiting, Off, Good}, s) }
