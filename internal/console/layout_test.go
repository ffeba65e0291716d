package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

func wide(width int) face { return face{size: func() (int, int) { return width, 24 }} }

// A line of costs breaks only where it must: what is exactly as wide as the terminal stays whole.
func TestCostsFillTheTerminal(t *testing.T) {
	c := &Console{Redact: &secret.Redactor{}}
	cost := []converge.Cost{{Machine: "wk-gpu1", Kind: converge.CostStop, Reason: "it gets more memory and other disks"}}
	whole := strings.TrimSuffix(c.costs(face{}, cost), "\n")
	require.NotContains(t, whole, "\n")
	for width := 20; width <= len(whole)+1; width++ {
		lines := strings.Split(strings.TrimSuffix(c.costs(wide(width), cost), "\n"), "\n")
		assert.Equal(t, width >= len(whole), len(lines) == 1, "%d columns", width)
		for i, line := range lines[:len(lines)-1] {
			next, _, _ := strings.Cut(lines[i+1], " ")
			assert.LessOrEqual(t, len(line), width)
			assert.Greater(t, len(line)+1+len(next), width, "%q of %d columns has room for %q", line, width, next)
		}
	}
}

// The worst that happens to a machine counts, in whichever order it is told; what is destroyed is not away for a while.
func TestTheWorstCostCounts(t *testing.T) {
	stop := converge.Cost{Machine: "a", Kind: converge.CostStop, Reason: "r", Downtime: "2 min"}
	destroy := converge.Cost{Machine: "a", Kind: converge.CostDestroy, Reason: "d"}
	for _, costs := range [][]converge.Cost{{stop, destroy}, {destroy, stop}, {stop, destroy, stop}} {
		got := mergeCosts(costs)
		require.Len(t, got, 1)
		assert.Equal(t, converge.CostDestroy, got[0].Kind)
		assert.Empty(t, got[0].Downtime)
	}
	assert.Equal(t, "2 min", mergeCosts([]converge.Cost{{Machine: "a", Kind: converge.CostStop}, stop})[0].Downtime)
}

// Steps that need a replacement are named, below each other on a narrow terminal.
func TestReplacementsAreNamed(t *testing.T) {
	p := &converge.Plan{}
	for i := range 4 {
		p.Items = append(p.Items, converge.Item{Step: fmt.Sprintf("machine-%d", i), Verdict: converge.Change, Diff: converge.Diff{{Path: "disk", Effect: converge.Replace}}})
	}
	label := converge.Replace.String() + ": "
	for width := len(label) + 12; width < len(label)+60; width++ {
		var out strings.Builder
		(&Console{data: wide(width), Redact: &secret.Redactor{}}).planSummary(&out, p)
		at := strings.Index(out.String(), label)
		require.GreaterOrEqual(t, at, 0)
		lines := strings.Split(strings.TrimRight(out.String()[at:], "\n"), "\n")
		words := ""
		for i, line := range lines {
			assert.LessOrEqual(t, runewidth.StringWidth(line), width)
			head := label
			if i > 0 {
				head = strings.Repeat(" ", len(label))
			}
			require.True(t, strings.HasPrefix(line, head), line)
			assert.NotEqual(t, ' ', line[len(head)])
			words += line[len(head):] + " "
		}
		assert.Equal(t, shortList([]string{"machine-0", "machine-1", "machine-2", "machine-3"})+" ", words)
	}
}

// A plan that cannot be written is an error of the command.
func TestPlanThatNobodyReads(t *testing.T) {
	c := &Console{Data: full{}, Redact: &secret.Redactor{}}
	require.ErrorContains(t, c.planJSON(&converge.Plan{Items: []converge.Item{{Step: "a"}}}), "no space")
}

// A row takes as many lines of the screen as its columns fill, and one if it is empty.
func TestLinesTaken(t *testing.T) {
	for width := 1; width < 8; width++ {
		for w := range 40 {
			fills := 1
			for fills*width < w {
				fills++
			}
			assert.Equal(t, fills+1, (&screen{rows: []int{w, 0}}).linesTaken(width), "%d columns of %d", w, width)
		}
	}
}

// The narrower the terminal, the less it shows of a machine; what is wrong leaves the least room.
func TestNarrowMachines(t *testing.T) {
	whole := Machine{Role: "server", Address: "10.0.0.1", VMID: "100", Version: "v1", Age: "3d", GPUs: "1 of 2", Holders: "a"}
	middle := Machine{Role: "server", Address: "10.0.0.1", GPUs: "1 of 2", Holders: "a"}
	for width, want := range map[int][2]Machine{
		0: {whole, whole}, 120: {whole, whole}, 119: {middle, middle}, 100: {middle, middle},
		99: {{Address: "10.0.0.1", GPUs: "1 of 2"}, {GPUs: "1 of 2"}},
	} {
		assert.Equal(t, want, [2]Machine{whole.narrow(width, false), whole.narrow(width, true)}, width)
	}
	l := &liveDisplay{}
	for width, want := range map[int]int{1: 8, 32: 8, 36: 9, 100: 25, 1000: 40} {
		l.widest.name = 40
		assert.Equal(t, want, l.names(width), width)
		l.widest.name = 5
		assert.Equal(t, 5, l.names(width), width)
	}
}

// Columns are narrowed from the widest down, none below what a word takes, and only as far as they must.
func TestNarrowColumns(t *testing.T) {
	for limit, want := range map[int][]int{
		0: {30, 14, 0, 9, 40}, 200: {30, 14, 0, 9, 40}, 83: {30, 14, 0, 9, 40}, 82: {29, 14, 0, 9, 40}, 67: {14, 14, 0, 9, 40},
		66: {13, 14, 0, 9, 40}, 65: {13, 13, 0, 9, 40}, 63: {12, 12, 0, 9, 40}, 10: {12, 12, 0, 9, 40},
	} {
		width := []int{30, 14, 0, 9, 40}
		narrow(width, limit)
		assert.Equal(t, want, width, "%d", limit)
	}
}
