package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// stepsOf makes steps from their needs and times in seconds.
func stepsOf(rows ...any) (out []Step) {
	start := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	for i := 0; i < len(rows); i += 4 {
		s := Step{Name: rows[i].(string), Lane: rows[i].(string), What: "x", End: Changed}
		if need := rows[i+1].(string); need != "" {
			for _, n := range need {
				s.Needs = append(s.Needs, string(n))
			}
		}
		s.Started, s.Ended = start.Add(time.Duration(rows[i+2].(int))*time.Second), start.Add(time.Duration(rows[i+3].(int))*time.Second)
		out = append(out, s)
	}
	return out
}

func TestCriticalPath(t *testing.T) {
	for name, x := range map[string]struct {
		steps []Step
		want  string
	}{
		"none":             {},
		"one":              {stepsOf("a", "", 0, 5), "a"},
		"the later need":   {stepsOf("a", "", 0, 5, "b", "", 0, 9, "c", "ab", 9, 12, "d", "a", 5, 11), "bc"},
		"what ended last":  {stepsOf("a", "", 0, 5, "b", "a", 5, 20, "c", "a", 5, 19), "ab"},
		"an unknown need":  {stepsOf("a", "z", 0, 5), "a"},
		"a need of itself": {stepsOf("a", "b", 0, 5, "b", "a", 0, 6), "ab"},
	} {
		got := ""
		for _, s := range critical(x.steps) {
			got += s.Name
		}
		assert.Equal(t, x.want, got, name)
	}
	skipped := stepsOf("a", "", 0, 5, "b", "a", 5, 50)
	skipped[1].End = Skipped
	assert.Len(t, critical(skipped), 1, "what has not started has not taken time")
}

func TestTimeline(t *testing.T) {
	steps := stepsOf("a", "", 0, 50, "b", "", 20, 60, "c", "a", 50, 100)
	for i := range steps {
		steps[i].Lane = "wk1"
	}
	steps[2].What = "first boot"
	run := &Run{Started: steps[0].Started, Ended: steps[2].Ended, Steps: append(steps, Step{Name: "d", Lane: "wk2", End: Skipped})}
	got := timelineOf(run)
	require.Len(t, got.Lanes, 1, "nothing started on wk2")
	bars := got.Lanes[0].Bars
	require.Len(t, bars, 3)
	assert.Equal(t, "0% 50% changed critical", bars[0].X+" "+bars[0].W+" "+bars[0].Class)
	assert.Equal(t, "20% 40% changed", bars[1].X+" "+bars[1].W+" "+bars[1].Class)
	assert.Greater(t, bars[1].Y, bars[0].Y, "they overlap in time")
	assert.Equal(t, bars[0].Y, bars[2].Y, "the row is free again")
	assert.Equal(t, "first boot", bars[2].Label)
	assert.Equal(t, []count{{3, Changed}, {1, Skipped}}, got.Counts)
	assert.Nil(t, timelineOf(nil))
	assert.Nil(t, timelineOf(&Run{Started: run.Started, Ended: run.Started, Steps: steps}), "a run of no time has no picture")
}

func TestTicks(t *testing.T) {
	for whole, want := range map[time.Duration][]string{
		40 * time.Millisecond: {"0 s", "<0.1 s", "<0.1 s", "<0.1 s"},
		7 * time.Second:       {"0 s", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s"},
		280 * time.Second:     {"0 s", "1 min", "2 min", "3 min", "4 min"},
		26 * time.Hour:        {"0 s", "6 h", "12 h", "18 h", "24 h"},
	} {
		var got []string
		for _, tick := range ticks(whole) {
			got = append(got, tick.Text)
		}
		assert.Equal(t, want, got, whole)
	}
	assert.LessOrEqual(t, len(ticks(10000*time.Hour)), 60)
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 3 * time.Millisecond: "<0.1 s", 340 * time.Millisecond: "0.3 s", 2 * time.Second: "2 s", 9960 * time.Millisecond: "10 s", 59600 * time.Millisecond: "1 min",
		185 * time.Second: "3 min 05 s", 3599700 * time.Millisecond: "1 h", 3720 * time.Second: "1 h 02 min", 3660 * time.Second: "1 h 01 min",
		59 * time.Second: "59 s", time.Minute: "1 min", 3540 * time.Second: "59 min", time.Hour: "1 h", 25 * time.Hour: "25 h", 25*time.Hour - time.Minute: "24 h 59 min",
	} {
		assert.Equal(t, want, FormatDuration(d))
	}
}

func TestFoldedChanges(t *testing.T) {
	memory := []Field{{Path: "memory", Before: "1", After: "2"}}
	var changes []Change
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		changes = append(changes, Change{Where: name, What: "vm", Fields: memory})
	}
	changes = append(changes, Change{Where: "a", What: "driver", Fields: memory})
	got := foldChanges(changes)
	require.Len(t, got, 2)
	assert.Equal(t, "a, b, c … g (7)", got[0].Where)
	assert.Equal(t, "a, b, c, d, e, f, g", got[0].Title)
	assert.Equal(t, "a", got[1].Where)
}

// A machine's cells are as many as it has GPUs, and filled as far as they are held.
func TestCells(t *testing.T) {
	colour := map[string]string{"teacher": "h0", "student1": "h1"}
	classes := func(m Machine) (out []string) {
		for _, c := range boxOf(m, colour).Cells {
			out = append(out, c.Class)
		}
		return out
	}
	cards := []GPU{{Model: "A100"}, {Model: "A100"}, {Model: "A100"}}
	held := Use{Used: 2, Total: 3, Unit: "GPUs", Holders: []Holder{{Name: "student1", Count: 1}, {Name: "teacher", Count: 1}}}
	assert.Equal(t, []string{"h1", "h0", "free"}, classes(Machine{GPUs: cards, Use: held}))
	assert.Equal(t, []string{"h1", "h0", "free"}, classes(Machine{Use: held}), "the cards are not known")
	assert.Equal(t, []string{"idle", "idle", "idle"}, classes(Machine{GPUs: cards, Use: Use{Unknown: "not known"}}))
	broken := []GPU{{}, {Problem: "assigned twice"}, {}}
	assert.Equal(t, []string{"h1", "broken", "free"}, classes(Machine{GPUs: broken, Use: held}))
	shares := Use{Used: 3, Total: 30, Unit: "shares", Holders: []Holder{{Name: "teacher", Count: 3}}}
	assert.Equal(t, []string{"rest", "rest", "rest"}, classes(Machine{GPUs: cards, Use: shares}))
	assert.Equal(t, "10%", boxOf(Machine{GPUs: cards, Use: shares}, colour).Share)
	assert.Empty(t, classes(Machine{}))
	over := Use{Used: 3, Total: 3, Unit: "GPUs", Holders: []Holder{{Name: "teacher", Count: 1}}}
	assert.Len(t, classes(Machine{GPUs: cards, Use: over}), 3, "fewer holders than used")
}

func TestEffectsOfChanges(t *testing.T) {
	c := &collector{Page: &Page{}}
	c.change("here", "a step", converge.Diff{
		{Path: "a", Have: "1", Want: "2", Note: "its size", Effect: converge.Restart}, {Path: "b", Have: "1", Effect: converge.Replace},
		{Path: "c", Want: "2", Note: "why", Effect: converge.Create}, {Path: "d", Have: "1", Want: "2", Note: "why"},
	})
	assert.Equal(t, []Field{
		{Path: "a", Before: "1", After: "2", Note: "its size; " + converge.Restart.String()}, {Path: "b", Before: "1", After: "(none)", Note: converge.Replace.String()},
		{Path: "c", After: "2"}, {Path: "d", Before: "1", After: "2", Note: "why"},
	}, c.Changes[0].Fields)
}
