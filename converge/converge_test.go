package converge_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// lamp is a thing in the world.
type lamp struct{ on atomic.Bool }

func (l *lamp) step(id string) *converge.Resource[bool] {
	return &converge.Resource[bool]{
		ID:      id,
		Observe: func(context.Context) (bool, error) { return l.on.Load(), nil },
		Diff: func(on bool) converge.Diff {
			if on {
				return nil
			}
			return converge.Missing("light")
		},
		Apply: func(context.Context, bool) error { l.on.Store(true); return nil },
	}
}

func Example() {
	var hall, porch lamp
	var g converge.Graph
	first := g.Add(hall.step("hall"))
	g.Add(porch.step("porch"), first)

	ctx := context.Background()
	plan, _ := g.Plan(ctx)
	for _, it := range plan.Items {
		fmt.Printf("%s: %s %s%s\n", it.Step, it.Verdict, it.Diff, it.Reason)
	}
	_, err := g.Run(ctx, func(e converge.Event) {
		if e.Kind.Final() {
			fmt.Println(e.Step, e.Kind)
		}
	})
	again, _ := g.Plan(ctx)
	fmt.Println(err, again.Changes())
	// Output:
	// hall: change light
	// porch: deferred after hall
	// hall changed
	// porch changed
	// <nil> false
}

func TestRunAgainFindsNothing(t *testing.T) {
	var l lamp
	var g converge.Graph
	g.Add(l.step("a"))
	rep, err := g.Run(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, rep.Count(converge.Changed))
	rep, err = g.Run(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, 1, rep.Count(converge.Unchanged))
}

func TestFailureStopsOnlyDependents(t *testing.T) {
	var a, b, c lamp
	var g converge.Graph
	bad := a.step("bad")
	bad.Apply = func(context.Context, bool) error { return errors.New("fuse blown") }
	r := g.Add(bad)
	g.Add(b.step("behind"), r)
	g.Add(c.step("sibling"))
	var kinds = map[string]converge.Kind{}
	rep, err := g.Run(t.Context(), func(e converge.Event) { kinds[e.Step] = e.Kind })
	assert.EqualError(t, err, "bad: fuse blown")
	var se *converge.StepError
	require.ErrorAs(t, err, &se)
	assert.Equal(t, "bad", se.Step)
	assert.Equal(t, map[string]converge.Kind{"bad": converge.FailedStep, "behind": converge.Skipped, "sibling": converge.Changed}, kinds)
	got, ok := rep.Step("behind")
	assert.True(t, ok)
	assert.Equal(t, []string{"bad"}, got.Needs)
	assert.False(t, b.on.Load())
}

func TestSettleTellsWhatRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g converge.Graph
		looks := 0
		g.Add(&converge.Resource[int]{
			ID:      "node",
			Observe: func(context.Context) (int, error) { looks++; return looks, nil },
			Diff:    func(int) converge.Diff { return converge.Diff{{Path: "ready", Have: "False", Want: "True"}} },
			Settle:  time.Minute, Hint: "look at the kubelet", Poll: 10 * time.Second,
		})
		start := time.Now()
		_, err := g.Run(t.Context(), nil)
		assert.EqualError(t, err, "node: not there after 1m: ready: False → True\n  look at the kubelet")
		assert.Equal(t, time.Minute, time.Since(start))
		assert.InDelta(t, 6, looks, 1)
		var nc *converge.NotConvergedError
		assert.ErrorAs(t, err, &nc)
	})
}

func TestSettleOutlivesTransientErrorsButNotPermanentOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var applied time.Time
		observe := func(context.Context) (bool, error) {
			switch {
			case applied.IsZero():
				return false, nil
			case time.Since(applied) < 30*time.Second:
				return false, errors.New("connection refused")
			default:
				return true, nil
			}
		}
		step := (&lamp{}).step("vm")
		step.Observe = observe
		step.Apply = func(context.Context, bool) error { applied = time.Now(); return nil }
		var g converge.Graph
		g.Add(step)
		var said []string
		_, err := g.Run(t.Context(), func(e converge.Event) {
			if e.Kind == converge.Waiting {
				said = append(said, e.Message)
			}
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"connection refused"}, said)

		applied = time.Time{}
		step.Observe = func(ctx context.Context) (bool, error) {
			on, err := observe(ctx)
			return on, converge.Permanent(err)
		}
		start := time.Now()
		_, err = g.Run(t.Context(), nil)
		assert.EqualError(t, err, "vm: connection refused")
		assert.Zero(t, time.Since(start))
	})
}

// TestRetriesAreReportedOnce: what a step does, and why it has not succeeded yet, is reported once
// however often it tries: a repeated report would displace the reason.
func TestRetriesAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lamp
		step, start := l.step("vm"), time.Now()
		on := step.Apply
		step.Apply = func(ctx context.Context, is bool) error {
			if time.Since(start) < 20*time.Second {
				return transient{errors.New("cp1 does not answer")}
			}
			return on(ctx, is)
		}
		var g converge.Graph
		g.Add(step)
		var said []string
		_, err := g.Run(t.Context(), func(e converge.Event) { said = append(said, strings.TrimSpace(string(e.Kind)+" "+e.Message)) })
		require.NoError(t, err)
		assert.Equal(t, []string{"checking", "acting", "waiting cp1 does not answer", "changed"}, said)
	})
}

// restarting is the error of a server that will be back.
type restarting struct{}

func (restarting) Error() string   { return "connection refused" }
func (restarting) Transient() bool { return true }

// TestWhatPassesIsWaitedFor: a step meets the restart of a server at its first look, or
// within what it does, and is as a second run would be.
func TestWhatPassesIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name         string
		away         time.Duration // from the first call on
		broken       error
		looks, works bool // what meets it
		want         string
		after        time.Duration
	}{
		{name: "first look", away: 40 * time.Second, broken: restarting{}, looks: true, after: 40 * time.Second},
		{name: "work", away: 40 * time.Second, broken: fmt.Errorf("labels: %w", restarting{}), works: true, after: 40 * time.Second},
		{name: "too long", away: time.Hour, broken: restarting{}, looks: true, after: time.Minute,
			want: "lamp: not there after 1m: connection refused\n  look at the fuse"},
		{name: "joined", away: 40 * time.Second, broken: errors.Join(restarting{}, restarting{}), looks: true, after: 40 * time.Second},
		{name: "not only", away: 40 * time.Second, broken: errors.Join(restarting{}, errors.New("fuse blown")), looks: true,
			want: "lamp: connection refused\nfuse blown"},
		{name: "permanent", away: 40 * time.Second, broken: converge.Permanent(restarting{}), works: true, want: "lamp: connection refused"},
		{name: "unknown", away: 40 * time.Second, broken: errors.New("fuse blown"), works: true, want: "lamp: fuse blown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var l lamp
				step := l.step("lamp")
				step.Settle, step.Poll, step.Hint = time.Minute, 10*time.Second, "look at the fuse"
				step.Observe = func(context.Context) (bool, error) {
					if tt.looks && time.Since(start) < tt.away {
						return false, tt.broken
					}
					return l.on.Load(), nil
				}
				step.Apply = func(context.Context, bool) error {
					if tt.works && time.Since(start) < tt.away {
						return tt.broken
					}
					l.on.Store(true)
					return nil
				}
				var g converge.Graph
				g.Add(step)
				_, err := g.Run(t.Context(), nil)
				assert.Equal(t, tt.after, time.Since(start))
				assert.Equal(t, tt.want == "", l.on.Load())
				if tt.want != "" {
					assert.EqualError(t, err, tt.want)
					return
				}
				assert.NoError(t, err)
			})
		})
	}
}

func TestCancelWaitsForGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		slow := (&lamp{}).step("slow")
		slow.Apply = func(ctx context.Context, _ bool) error {
			<-ctx.Done()
			time.Sleep(time.Second) // tidying up
			ended = true
			return ctx.Err()
		}
		var g converge.Graph
		g.Add((&lamp{}).step("behind"), g.Add(slow))
		time.AfterFunc(time.Minute, cancel)
		rep, err := g.Run(ctx, nil)
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, ended)
		assert.Equal(t, 1, rep.Count(converge.Cancelled))
		assert.Equal(t, 1, rep.Count(converge.Skipped))
	})
}

// What had gone wrong before the context ended is in the report, and its end alone is not.
func TestCancelKeepsWhatWasWrong(t *testing.T) {
	full := errors.New("no space left on device")
	for what, tt := range map[string]struct {
		fail func(ctx context.Context) error
		want string
	}{
		"the end alone":    {func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("read: %w", ctx.Err()) }, ""},
		"an error of then": {func(ctx context.Context) error { <-ctx.Done(); return full }, "a: no space left on device"},
		"both":             {func(ctx context.Context) error { <-ctx.Done(); return errors.Join(full, ctx.Err()) }, "a: no space left on device\ncontext canceled"},
		"what is retried":  {func(context.Context) error { return transient{full} }, "a: no space left on device\ncontext canceled"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				step := (&lamp{}).step("a")
				step.Settle = time.Hour
				step.Observe = func(ctx context.Context) (bool, error) { return false, tt.fail(ctx) }
				var g converge.Graph
				g.Add(step)
				time.AfterFunc(time.Minute+time.Millisecond, cancel) // not at the instant of a look
				rep, err := g.Run(ctx, nil)
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 1, rep.Count(converge.Cancelled))
				if tt.want == "" {
					assert.EqualError(t, err, "context canceled")
					return
				}
				require.ErrorIs(t, err, full)
				assert.EqualError(t, err, "context canceled\n"+tt.want)
			})
		})
	}
}

func TestPlanLooksBehindWhatOnlyChanges(t *testing.T) {
	diffs := map[string]converge.Diff{
		"vm":   {{Path: "memory", Have: "128GiB", Want: "96GiB", Effect: converge.Restart}},
		"node": {{Path: "label/tier", Want: "gold"}},
	}
	step := func(id string) converge.Step {
		return &converge.Resource[int]{
			ID: id, Observe: func(context.Context) (int, error) { return 0, nil },
			Diff:  func(int) converge.Diff { return diffs[id] },
			Apply: func(context.Context, int) error { return nil },
		}
	}
	var g converge.Graph
	g.Add(step("node"), g.Add(step("guest"), g.Add(step("vm"))))
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []converge.Verdict{converge.Change, converge.Clean, converge.Change},
		[]converge.Verdict{plan.Items[0].Verdict, plan.Items[1].Verdict, plan.Items[2].Verdict})
	assert.Equal(t, []string{"vm", "guest", "node"}, g.Names())
}

func TestPlanReportsFailuresToLook(t *testing.T) {
	bad := (&lamp{}).step("bad")
	bad.Observe = func(context.Context) (bool, error) { return false, errors.New("403") }
	var g converge.Graph
	g.Add((&lamp{}).step("behind"), g.Add(bad))
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	assert.EqualError(t, plan.Err(), "bad: 403")
	assert.Equal(t, "bad could not be checked", plan.Items[1].Reason)
}

func TestGraphMistakes(t *testing.T) {
	var g, other converge.Graph
	g.Add((&lamp{}).step("a"))
	g.Add((&lamp{}).step("a"))
	g.Add((&lamp{}).step("b"), other.Add((&lamp{}).step("x")), nil)
	_, err := g.Plan(t.Context())
	assert.ErrorContains(t, err, `step "a" was added twice`)
	_, err = g.Run(t.Context(), nil)
	assert.ErrorContains(t, err, `step "b" needs "x" of another graph`)
}

func TestProgressBecomesEvents(t *testing.T) {
	l := lamp{}
	s := l.step("a")
	s.Apply = func(ctx context.Context, _ bool) error {
		converge.Progressf(ctx, "screwing in the bulb")
		l.on.Store(true)
		return nil
	}
	var g converge.Graph
	g.Add(s)
	var got []string
	_, err := g.Run(t.Context(), func(e converge.Event) { got = append(got, strings.TrimSpace(string(e.Kind)+" "+e.Message)) })
	require.NoError(t, err)
	assert.Equal(t, []string{"checking", "acting", "progress screwing in the bulb", "changed"}, got)
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	var g converge.Graph
	lamps := make([]lamp, 500)
	var last *converge.Ref
	for i := range lamps {
		last = g.Add(lamps[i].step(fmt.Sprint(i)), last)
	}
	_, err := g.Run(t.Context(), nil)
	require.NoError(t, err)
	assert.LessOrEqual(t, runtime.NumGoroutine(), before+1)
}

// transient is an error that another look may be without.
type transient struct{ error }

func (transient) Transient() bool { return true }
func (p transient) Unwrap() error { return p.error }

// TestHintsOfTime: a check that hangs and a step that does not settle both say how to get more time, if that is known.
func TestHintsOfTime(t *testing.T) {
	for hint, want := range map[string][2]string{
		"":         {"checking took longer than 30s: context deadline exceeded", "x: not there after 5m: light"},
		"raise it": {"checking took longer than 30s (raise it): context deadline exceeded", "x: not there after 5m: light\n  raise it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			hangs := true
			g := converge.Graph{TimeoutHint: hint}
			g.Add(&converge.Resource[bool]{ID: "x", Diff: func(bool) converge.Diff { return converge.Missing("light") },
				Observe: func(ctx context.Context) (bool, error) {
					if hangs {
						<-ctx.Done()
					}
					return false, ctx.Err()
				}})
			plan, err := g.Plan(t.Context())
			require.NoError(t, err)
			assert.EqualError(t, plan.Items[0].Err, want[0])
			hangs = false
			_, err = g.Run(t.Context(), nil)
			assert.EqualError(t, err, want[1])
		})
	}
}
