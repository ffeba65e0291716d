package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// noise is the part by which a measure may be worse without a remark. Disks and networks, which
// others use too, are in MB/s; the way to a model's first token crosses a network, and other users' requests.
func noise(m Measure) float64 {
	switch m.Unit {
	case "MB/s":
		return 0.3
	case "tokens/s":
		return 0.15
	case "ms":
		return 1
	}
	return 0.05
}

// month is how far back results are compared with. A median of fewer than few is none.
const (
	month = 31 * 24 * time.Hour
	few   = 3
)

// Difference is how a result differs from earlier ones of the same GPU or node.
type Difference struct {
	Worse  []string // such as a failure where it passed
	Slower []Regression
	Other  []string // such as another driver
}

// Regression says that a measure is worse than before.
type Regression struct{ Measure, Text string }

// Regressions are the texts of all that is worse.
func (d Difference) Regressions() []string {
	out := slices.Clone(d.Worse)
	for _, s := range d.Slower {
		out = append(out, s.Text)
	}
	return out
}

// Compare compares a result with all earlier ones.
func Compare(records []Record, now Record) (d Difference) {
	past := slices.DeleteFunc(RecordsOf(records, now), func(r Record) bool { return !r.Time.Before(now.Time) })
	if len(past) == 0 {
		if before, ok := predecessor(records, now); ok {
			d.Other = append(d.Other, fmt.Sprintf("another card than on %s (%s)", day(before.Time), before.UUID))
		}
		return d
	}
	last := past[len(past)-1]
	switch {
	case !now.Passed && last.Passed:
		d.Worse = append(d.Worse, "it passed on "+day(last.Time))
	case now.Passed && !last.Passed:
		d.Other = append(d.Other, "it failed on "+day(last.Time))
	}
	for _, m := range now.Measures {
		if text := slower(past, now, m); text != "" {
			d.Slower = append(d.Slower, Regression{m.Name, text})
		}
	}
	if now.Memory < last.Memory && now.Memory > 0 {
		d.Worse = append(d.Worse, fmt.Sprintf("less memory than on %s", day(last.Time)))
	}
	if now.Driver != last.Driver && now.Driver != "" && last.Driver != "" {
		d.Other = append(d.Other, fmt.Sprintf("driver %s on %s", last.Driver, day(last.Time)))
	}
	if now.Node != last.Node {
		d.Other = append(d.Other, fmt.Sprintf("in %s on %s", last.Node, day(last.Time)))
	}
	return d
}

// predecessor is the latest earlier result at the same place.
func predecessor(records []Record, now Record) (last Record, ok bool) {
	for _, r := range records {
		if r.Node == now.Node && r.Index == now.Index && r.UUID != "" && now.UUID != "" && r.Time.Before(now.Time) && !r.Time.Before(last.Time) {
			last, ok = r, true
		}
	}
	return last, ok
}

// datedValue is a measure of a run.
type datedValue struct {
	Measure
	time time.Time
}

// slower says that a measure is worse than the median of the last month, or than last time if it
// was not measured often then. Only passed results of the same level count, and those with the
// same driver if there are any; other drivers since then are named.
func slower(past []Record, now Record, m Measure) string {
	was := pastValues(past, now, m, true)
	if len(was) == 0 {
		was = pastValues(past, now, m, false)
	}
	if len(was) == 0 {
		return ""
	}
	first := slices.IndexFunc(was, func(d datedValue) bool { return now.Time.Sub(d.time) <= month })
	if recent := was[max(first, 0):]; first >= 0 && len(recent) >= few {
		sorted := slices.SortedFunc(slices.Values(recent), func(a, b datedValue) int { return cmp.Compare(a.Value, b.Value) })
		median := sorted[len(sorted)/2].Measure
		if loss(m, median) > noise(m) {
			return fmt.Sprintf("%s %s is slower than last month: median %s of %d runs since %s (%+.0f %%)",
				m.Name, m, median, len(recent), day(recent[0].time), change(m, median)) + drivers(past, now, recent[0].time)
		}
		return ""
	}
	if last := was[len(was)-1]; loss(m, last.Measure) > noise(m) {
		return fmt.Sprintf("%s %s is slower than last time: %s on %s (%+.0f %%)",
			m.Name, m, last.Measure, day(last.time), change(m, last.Measure)) + drivers(past, now, last.time)
	}
	return ""
}

// pastValues are the values of a measure so far, the oldest first.
func pastValues(past []Record, now Record, m Measure, sameDriver bool) (out []datedValue) {
	for _, r := range past {
		if cmp.Or(r.Level, quick) != cmp.Or(now.Level, quick) || !r.Passed || sameDriver && r.Driver != now.Driver {
			continue
		}
		for _, was := range r.Measures {
			if was.Name == m.Name && was.Unit == m.Unit && was.Value > 0 {
				out = append(out, datedValue{was, r.Time})
			}
		}
	}
	return out
}

// quick is the level of records without one.
const quick = "quick"

// drivers names the drivers since a time that are not the present one.
func drivers(past []Record, now Record, since time.Time) (text string) {
	until := map[string]time.Time{}
	var order []string
	for _, r := range past {
		if r.Time.Before(since) || r.Driver == now.Driver || r.Driver == "" {
			continue
		}
		if until[r.Driver].IsZero() {
			order = append(order, r.Driver)
		}
		until[r.Driver] = r.Time
	}
	for _, d := range order {
		text += fmt.Sprintf(", driver %s until %s", d, day(until[d]))
	}
	return text
}

// loss is how much worse a measure is, as a part.
func loss(now, was Measure) float64 {
	if now.Less {
		return now.Value/was.Value - 1
	}
	return 1 - now.Value/was.Value
}

func change(now, was Measure) float64 { return math.Round(100 * (now.Value/was.Value - 1)) }

func day(t time.Time) string { return t.Format(time.DateOnly) }
