package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/proxmox"
)

// A machine is what its node is, or else its VM, or else its steps; what is wrong with it is a problem of the page.
func TestStateOfAMachine(t *testing.T) {
	unread := &cluster.Inventory{VMs: errors.New("no answer"), Kube: errors.New("no answer")}
	for name, x := range map[string]struct {
		m        cluster.Machine
		inv      *cluster.Inventory
		step     *steps
		want     State
		words    string
		problems []string // of its cause; warnings have a ? at the end
	}{
		"no VM":          {m: cluster.Machine{}, want: Off, words: "has no VM yet"},
		"off":            {m: cluster.Machine{Made: true, VMID: 100, Joined: true, Ready: true}, want: Bad, words: "its VM is off", problems: []string{"VM 100 on pve1 is off"}},
		"not ready":      {m: cluster.Machine{Made: true, VMID: 100, Running: true, Joined: true, Reason: "no CNI"}, want: Bad, words: "no CNI", problems: []string{"the node is not ready: no CNI"}},
		"drained":        {m: cluster.Machine{Made: true, VMID: 100, Running: true, Joined: true, Ready: true, Cordoned: true}, want: Waiting, words: "drained", problems: []string{"the node is drained and gets no pods?"}},
		"not joined":     {m: cluster.Machine{Made: true, VMID: 100, Running: true}, want: Waiting, words: "has not joined"},
		"ready":          {m: cluster.Machine{Made: true, VMID: 100, Running: true, Joined: true, Ready: true}, want: Good, words: "ready"},
		"external":       {m: cluster.Machine{External: true, Joined: true, Ready: true}, want: Good, words: "ready"},
		"external, new":  {m: cluster.Machine{External: true}, want: Waiting, words: "has not joined"},
		"unread":         {inv: unread, want: Good, words: "ready"},
		"a failed step":  {m: cluster.Machine{Made: true, VMID: 100, Running: true}, step: &steps{bad: 1, words: "no login"}, want: Bad, words: "no login"},
		"a file server":  {m: cluster.Machine{Role: spec.FileServer, Made: true, VMID: 100, Running: true}, want: Good, words: "ready"},
		"off, as a disk": {m: cluster.Machine{Role: spec.FileServer, Made: true, VMID: 100}, want: Bad, words: "its VM is off", problems: []string{"VM 100 on pve1 is off"}},
	} {
		x.m.Name, x.m.Host = "wk1", "pve1"
		if x.inv == nil {
			x.inv = &cluster.Inventory{}
		}
		c := &collector{Page: &Page{}, steps: map[string]*steps{}}
		if x.step != nil {
			c.steps["wk1"] = x.step
		}
		state, words := c.state(x.m, x.inv)
		assert.Equal(t, x.want, state, name)
		assert.Equal(t, x.words, words, name)
		var problems []string
		for _, p := range c.Problems {
			assert.Equal(t, "wk1", p.Where)
			problems = append(problems, p.What+map[bool]string{true: "?"}[p.Warning])
		}
		assert.Equal(t, x.problems, problems, name)
	}
}

// Who has a card that is not of this cluster is named as well as it is known.
func TestOwnerOfACard(t *testing.T) {
	assert.Empty(t, ownerOf(cluster.GPUInfo{State: cluster.GPUFree}))
	assert.Equal(t, "another cluster", ownerOf(cluster.GPUInfo{State: cluster.GPUTaken}))
	assert.Equal(t, "reserved for wk1", ownerOf(cluster.GPUInfo{State: cluster.GPUTaken, Node: "wk1"}))
	owners := []cluster.GPUOwner{{Name: "a"}, {Name: "b"}}
	assert.Equal(t, owners[0].String()+"; "+owners[1].String(), ownerOf(cluster.GPUInfo{State: cluster.GPUTaken, Node: "wk1", Owners: owners}))
}

// Memory is told in whole GiB, to the nearest, and less than one as it is.
func TestRoundedMemory(t *testing.T) {
	const gib = proxmox.Size(1 << 30)
	for s, want := range map[proxmox.Size]proxmox.Size{0: 0, gib - 1: gib - 1, gib / 2: gib / 2, gib: gib, gib*3/2 - 1: gib, gib * 3 / 2: 2 * gib, 64*gib + 17: 64 * gib} {
		assert.Equal(t, want.String(), round(s))
	}
}

// A plan is shown only if nothing ran after it.
func TestPlanThatIsLast(t *testing.T) {
	plan := &converge.Plan{}
	assert.Same(t, plan, (&collector{plan: plan}).planIfLast())
	assert.Nil(t, (&collector{plan: plan, report: &converge.Report{}}).planIfLast())
}

// A trend is of the last run that measured, and compares like with like: the same level, measure and unit.
func TestTrends(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	record := func(n int, level string, measures ...history.Measure) history.Record {
		return history.Record{Time: day(n), Level: level, Passed: n != 2, Measures: measures}
	}
	speed := func(v float64, unit string) history.Measure {
		return history.Measure{Name: "speed", Value: v, Unit: unit}
	}
	heat := history.Measure{Name: "heat", Value: 70, Unit: "°C"}
	past := []history.Record{record(1, "full", speed(1, "GB/s")), record(2, "full", heat, speed(2, "GB/s")), record(3, "burn", speed(3, "GB/s")),
		record(4, "full", speed(4, "MB/s")), record(5, "full", speed(5, "GB/s"), heat), record(6, "full"), record(9, "full", speed(9, "GB/s"))}
	got := trends(past, day(7), history.Difference{Slower: []history.Regression{{Measure: "heat"}}})
	var lines []string
	for _, x := range got {
		line := fmt.Sprintf("%s %t %t", x.Name, x.Slower, strings.HasSuffix(x.Words, " on 2026-01-05"))
		for _, p := range x.Past {
			line += fmt.Sprintf(" %d:%g:%v", p.Time.Day(), p.Value, p.Passed)
		}
		lines = append(lines, line)
	}
	assert.Equal(t, []string{"speed false true 1:1:true 2:2:false 5:5:true", "heat true true 2:70:false 5:70:true"}, lines)
	now := trends(past, day(5), history.Difference{})
	assert.NotContains(t, now[0].Words, " on ", "of this run")
	assert.Nil(t, trends(past[5:6], day(7), history.Difference{}))
	assert.Nil(t, trends(past, day(1).Add(-1), history.Difference{}))
}

// Small charts are of the main measure alone; without measures, there is one of passes and failures.
func TestChartsOfAResult(t *testing.T) {
	r := Result{Trends: []Trend{{Name: "speed"}, {Name: "heat"}, {Name: "power"}}}
	names := func(small bool) (out []string) {
		for _, c := range chartsOf(r, small) {
			out = append(out, c.Name)
		}
		return out
	}
	assert.Equal(t, []string{"speed", "heat", "power"}, names(false))
	assert.Equal(t, []string{"speed"}, names(true))
}

// What failed comes first, then what is worse than before; results of a machine are together, in their order, and where there
// are many, machines as a whole come last.
func TestOrderOfResults(t *testing.T) {
	all := []Result{
		{Node: "b", Index: 1, Passed: true}, {Node: "b", Index: Whole, Passed: true}, {Node: "a", Index: 0, Passed: true, Worse: []string{"slower"}},
		{Node: "b", Index: 0, Passed: true}, {Node: "a", Index: 2}, {Node: "a", Index: 1, Passed: true}, {Node: "c", Index: Whole},
	}
	order := func(many bool) (out []string) {
		for _, r := range sortResults(slices.Clone(all), many) {
			out = append(out, fmt.Sprint(r.Node, r.Index))
		}
		return out
	}
	whole := fmt.Sprint("b", Whole)
	assert.Equal(t, []string{"a2", fmt.Sprint("c", Whole), "a0", whole, "b0", "b1", "a1"}, order(false))
	assert.Equal(t, []string{"a2", fmt.Sprint("c", Whole), "a0", "b0", "b1", "a1", whole}, order(true))
}

// Steps of the critical path that are too short to see are counted, with their time; the time of none is the rest.
func TestShortSteps(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	step := func(name, needs string, from, to time.Duration) Step {
		return Step{Name: name, Lane: "wk1", What: name, End: Changed, Needs: strings.Fields(needs), Started: start.Add(from), Ended: start.Add(to)}
	}
	run := &Run{Started: start, Ended: start.Add(1000 * time.Second), Steps: []Step{
		step("a", "", 0, 2*time.Second), step("b", "a", 2*time.Second, 6*time.Second), step("c", "b", 6*time.Second, 11*time.Second), step("d", "c", 11*time.Second, 940*time.Second),
	}}
	got := timelineOf(run)
	var shown []string
	for _, l := range got.Critical {
		shown = append(shown, l.What+" "+l.Took+" "+l.Share)
	}
	assert.Equal(t, []string{"c 5 s 0 %", "d 15 min 29 s 93 %"}, shown)
	assert.Equal(t, "Left out: 2 steps of less than half a percent each, 6 s together.", got.Short)
	assert.Equal(t, "1 min", got.Rest)
	run.Ended = start.Add(989 * time.Second)
	assert.Empty(t, timelineOf(run).Rest, "less than a twentieth")
}
