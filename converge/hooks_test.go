package converge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// A step says what it would cost in a plan, and to whom it asks.
func TestCostsAreOfWhatWasSeen(t *testing.T) {
	vm := &converge.Resource[string]{
		ID:      "vm/a",
		Observe: func(context.Context) (string, error) { return "64GiB", nil },
		Diff:    func(have string) converge.Diff { return converge.Compare("memory", have, "96GiB", converge.Restart) },
		Apply:   func(context.Context, string) error { return errors.New("applied") },
		Costs: func(_ context.Context, seen string, d converge.Diff) []converge.Cost {
			return []converge.Cost{{Machine: "a", Kind: converge.CostStop, Reason: seen + " and " + d[0].Path, Downtime: "2 to 10 min"}}
		},
	}
	wait := *vm
	wait.ID, wait.Apply = "wait", nil
	clean := *vm
	clean.ID, clean.Diff = "clean", func(string) converge.Diff { return nil }
	want := []converge.Cost{{Machine: "a", Kind: converge.CostStop, Reason: "64GiB and memory", Downtime: "2 to 10 min"}}
	var g converge.Graph
	for _, s := range []converge.Step{vm, &wait, &clean} {
		g.Add(s)
	}
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, want, plan.Items[0].Costs)
	assert.Empty(t, plan.Items[1].Costs, "nobody acts on it")
	assert.Empty(t, plan.Items[2].Costs, "nothing is to be done")

	var alone converge.Graph
	alone.Add(vm)
	var asked []converge.Item
	alone.Approve = func(_ context.Context, it converge.Item) error {
		asked = append(asked, it)
		return errors.New("not agreed to")
	}
	rep, err := alone.Run(t.Context(), nil)
	assert.EqualError(t, err, "vm/a: not agreed to")
	assert.Equal(t, converge.FailedStep, rep.Steps[0].Kind)
	var permanent interface{ Permanent() bool }
	assert.True(t, errors.As(err, &permanent) && permanent.Permanent())
	assert.Equal(t, plan.Items[:1], asked)
}

// A refusal of the wait is final, although its error would pass.
func TestARefusalIsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var l lamp
		var g converge.Graph
		g.Add(l.step("a"))
		g.Approve = func(context.Context, converge.Item) error { return restarting{} }
		_, err := g.Run(t.Context(), nil)
		assert.ErrorIs(t, err, restarting{})
		assert.Zero(t, time.Since(start))
		assert.False(t, l.on.Load())
	})
}

// house is a random graph of lamps, and what happened in a run of it.
type house struct {
	mu    sync.Mutex
	on    []bool
	needs [][]int
	acted map[int]bool
	began []time.Time // of the last look at each
	late  []string    // what was wrong
	clear time.Time   // when Before returned
}

func randomHouse(r *rand.Rand) *house {
	n := 1 + r.IntN(12)
	h := &house{on: make([]bool, n), needs: make([][]int, n), began: make([]time.Time, n), acted: map[int]bool{}}
	for i := range n {
		h.on[i] = r.IntN(3) == 0
		for j := range i {
			if r.IntN(4) == 0 {
				h.needs[i] = append(h.needs[i], j)
			}
		}
	}
	return h
}

func (h *house) graph(r *rand.Rand) *converge.Graph {
	g := &converge.Graph{}
	refs := make([]*converge.Ref, len(h.on))
	for i := range h.on {
		var needs []*converge.Ref
		for _, j := range h.needs[i] {
			needs = append(needs, refs[j])
		}
		takes := time.Duration(r.IntN(20)) * time.Second
		refs[i] = g.Add(&converge.Resource[bool]{
			ID: fmt.Sprint(i),
			Observe: func(context.Context) (bool, error) {
				h.mu.Lock()
				h.began[i] = time.Now()
				on := h.on[i]
				h.mu.Unlock()
				time.Sleep(takes)
				return on, nil
			},
			Diff: func(on bool) converge.Diff {
				if on {
					return nil
				}
				return converge.Missing("light")
			},
			Apply: func(context.Context, bool) error { h.act(i); return nil },
			Poll:  time.Second,
		}, needs...)
	}
	return g
}

func (h *house) act(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clear.IsZero() || h.began[i].Before(h.clear) {
		h.late = append(h.late, fmt.Sprintf("%d was acted on by a look from before", i))
	}
	h.acted[i], h.on[i] = true, true
}

// behind lists what needs one of the given, through others too, and they.
func (h *house) behind(these ...int) []int {
	out := slices.Clone(these)
	for i := range h.needs {
		if !slices.Contains(out, i) && slices.ContainsFunc(h.needs[i], func(j int) bool { return slices.Contains(out, j) }) {
			out = append(out, i)
		}
	}
	return out
}

// Whatever the graph: the run begins once, and not where nothing is to be done; nobody acts on
// what was seen before it began; what is refused, and what needs it, is left as it was;
// everything else is done.
func TestHooksHoldForAnyGraph(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 10))
			h := randomHouse(r)
			g := h.graph(r)
			was := slices.Clone(h.on)
			refused, byOther := r.IntN(len(h.on)), r.IntN(len(h.on))
			begun := 0
			g.BeforeActing = func(context.Context) error {
				begun++
				time.Sleep(time.Duration(r.IntN(60)) * time.Second)
				h.mu.Lock()
				defer h.mu.Unlock()
				h.clear = time.Now()
				h.on[byOther] = true // the run that we waited for has done that
				return nil
			}
			asked := map[string]int{}
			g.Approve = func(_ context.Context, it converge.Item) error {
				h.mu.Lock()
				defer h.mu.Unlock()
				asked[it.Step]++
				if it.Step == fmt.Sprint(refused) {
					return errors.New("no")
				}
				return nil
			}
			rep, err := g.Run(t.Context(), nil)
			require.Empty(t, h.late, "seed %d", seed)
			require.Equal(t, slices.Contains(was, false), begun == 1, "seed %d: begun %d times", seed, begun)
			if begun == 1 {
				was[byOther] = was[byOther] || !h.acted[byOther]
			}
			lost := []int{}
			if !was[refused] {
				lost = h.behind(refused)
			}
			require.Equal(t, len(lost) > 0, err != nil, "seed %d: %v", seed, err)
			for i, s := range rep.Steps {
				want := converge.Changed
				switch {
				case len(lost) > 0 && i == refused:
					want = converge.FailedStep
				case slices.Contains(lost, i):
					want = converge.Skipped
				case was[i]:
					want = converge.Unchanged
				}
				require.Equal(t, want, s.Kind, "seed %d, step %d", seed, i)
				require.Equal(t, want == converge.Changed, h.acted[i], "seed %d, step %d", seed, i)
				if want == converge.Changed || want == converge.FailedStep {
					require.Equal(t, 1, asked[s.Step], "seed %d, step %d", seed, i)
				}
			}
		})
	}
}

// A run that must not begin does nothing, says why once, and ends at once.
func TestNothingIsDoneWhereTheRunMayNotBegin(t *testing.T) {
	busy := errors.New("teacher@desk has it since 17:02")
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			h := randomHouse(r)
			g := h.graph(r)
			was := slices.Clone(h.on)
			g.Add(&converge.Resource[bool]{ // what waits for others to act does not wait on
				ID: "wait", Observe: func(context.Context) (bool, error) { return false, nil },
				Diff: func(bool) converge.Diff { return converge.Missing("light") }, Settle: time.Hour,
			})
			g.BeforeActing = func(context.Context) error { return busy }
			g.Approve = func(context.Context, converge.Item) error { t.Error("asked"); return nil }
			if !slices.Contains(was, false) {
				return
			}
			start := time.Now()
			rep, err := g.Run(t.Context(), nil)
			require.Equal(t, busy.Error(), err.Error(), "seed %d", seed)
			require.ErrorIs(t, err, busy)
			require.Empty(t, h.acted)
			require.Equal(t, was, h.on)
			require.Less(t, time.Since(start), 5*time.Minute)
			for i, s := range rep.Steps[:len(was)] {
				if was[i] {
					require.Contains(t, []converge.Kind{converge.Unchanged, converge.Cancelled, converge.Skipped}, s.Kind)
					continue
				}
				require.Contains(t, []converge.Kind{converge.Cancelled, converge.Skipped}, s.Kind)
			}
		})
	}
}

// A run that is interrupted while it waits to begin says so, and what it waited for.
func TestInterruptedBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		var a, b lamp
		var g converge.Graph
		g.Add(a.step("a"))
		g.Add(b.step("b"))
		g.BeforeActing = func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("waited for teacher@desk: %w", errors.Join(errors.New("has it since 17:02"), ctx.Err()))
		}
		rep, err := g.Run(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorContains(t, err, "has it since 17:02")
		assert.Equal(t, 2, rep.Count(converge.Cancelled))
		assert.False(t, a.on.Load() || b.on.Load())
	})
}

// Who only waits asks before it does, too: for what differs with time, and for what cannot
// be seen for a while.
func TestWaitingBeginsTheRun(t *testing.T) {
	for _, what := range []string{"differs", "fails"} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Bool
			start := time.Now()
			var g converge.Graph
			g.Add(&converge.Resource[bool]{
				ID: "guest",
				Observe: func(context.Context) (bool, error) {
					up := time.Since(start) > 5*time.Second
					if what == "fails" && !up {
						return false, restarting{}
					}
					return up, nil
				},
				Diff: func(up bool) converge.Diff {
					if up {
						return nil
					}
					return converge.Missing("guest")
				},
				Poll: time.Second,
			})
			g.BeforeActing = func(context.Context) error {
				assert.Zero(t, time.Since(start), "nothing was waited for")
				assert.True(t, begun.CompareAndSwap(false, true))
				return nil
			}
			_, err := g.Run(t.Context(), nil)
			require.NoError(t, err)
			assert.True(t, begun.Load(), what)
		})
	}
}
