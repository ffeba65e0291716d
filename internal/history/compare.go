package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// noise is the part by which a measure may be worse without a remark.
const noise = 0.05

// month is how far back a slow loss of performance is looked for.
const month = 31 * 24 * time.Hour

// Compare compares a result with all earlier ones. worse says what is worse than before, other
// what else is different.
func Compare(records []Record, now Record) (worse, other []string) {
	past := slices.DeleteFunc(Of(records, now.UUID), func(r Record) bool { return !r.Time.Before(now.Time) })
	if len(past) == 0 {
		if before, ok := predecessor(records, now); ok {
			other = append(other, fmt.Sprintf("another card than on %s (%s)", day(before.Time), before.UUID))
		}
		return nil, other
	}
	last := past[len(past)-1]
	switch {
	case !now.Passed && last.Passed:
		worse = append(worse, "it passed on "+day(last.Time))
	case now.Passed && !last.Passed:
		other = append(other, "it failed on "+day(last.Time))
	}
	for _, m := range now.Measures {
		if text := slower(past, now, m); text != "" {
			worse = append(worse, text)
		}
	}
	if now.Memory < last.Memory {
		worse = append(worse, fmt.Sprintf("less memory than on %s", day(last.Time)))
	}
	if now.Driver != last.Driver {
		other = append(other, fmt.Sprintf("driver %s on %s", last.Driver, day(last.Time)))
	}
	if now.Node != last.Node {
		other = append(other, fmt.Sprintf("in %s on %s", last.Node, day(last.Time)))
	}
	return worse, other
}

// predecessor is the latest earlier result at the same place.
func predecessor(records []Record, now Record) (last Record, ok bool) {
	for _, r := range records {
		if r.Node == now.Node && r.Index == now.Index && r.Time.Before(now.Time) && !r.Time.Before(last.Time) {
			last, ok = r, true
		}
	}
	return last, ok
}

// slower says that a measure is worse than last time, or than the median of the month before.
// Only results of the same level are compared.
func slower(past []Record, now Record, m Measure) string {
	var values []Measure
	var first time.Time // within the month
	last, found := Measure{}, false
	lastTime := time.Time{}
	for _, r := range past {
		if r.Level != now.Level || !r.Passed {
			continue
		}
		for _, was := range r.Measures {
			if was.Name != m.Name || was.Unit != m.Unit || was.Value <= 0 {
				continue
			}
			last, lastTime, found = was, r.Time, true
			if now.Time.Sub(r.Time) <= month {
				if first.IsZero() {
					first = r.Time
				}
				values = append(values, was)
			}
		}
	}
	if !found {
		return ""
	}
	if by := loss(m, last); by > noise {
		return fmt.Sprintf("%s %s is slower than last time: %s on %s (%+.0f %%)", m.Name, m, last, day(lastTime), change(m, last))
	}
	slices.SortFunc(values, func(a, b Measure) int { return cmp.Compare(a.Value, b.Value) })
	const few = 3
	if len(values) < few {
		return ""
	}
	median := values[len(values)/2]
	if by := loss(m, median); by > noise {
		return fmt.Sprintf("%s %s is slower than in the last month: median %s since %s (%+.0f %%)",
			m.Name, m, median, day(first), change(m, median))
	}
	return ""
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
