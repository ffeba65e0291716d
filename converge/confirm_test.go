package converge_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

// TestConfirm: an Act that asks again is refused by what costs now what it did not, begins again if what it is about is gone, and
// passes otherwise.
func TestConfirm(t *testing.T) {
	holds := func(texts ...string) []converge.Cost {
		c := converge.Cost{Machine: "a", Kind: converge.CostDestroy}
		for _, l := range texts {
			c.Holds = append(c.Holds, converge.Loss{Text: l})
		}
		return []converge.Cost{c}
	}
	broken := errors.New("the API is down")
	for _, c := range []struct {
		name       string
		before     []converge.Cost // what it costs when the step begins
		then       func(on *bool, costs *[]converge.Cost, fails *error)
		asked      int // how often
		begun      int // how many times the Act ran
		err        string
		unapproved bool
	}{
		{name: "nothing has changed", before: holds("x"), asked: 2, begun: 1},
		{name: "it costs more", before: holds("x"), then: func(_ *bool, costs *[]converge.Cost, _ *error) { *costs = holds("x", "y") }, asked: 2, begun: 1,
			err: "s: not done, since nobody has agreed to it: a is destroyed, and with it y\n  run it again, and it asks"},
		{name: "it is done by now", before: holds("x"), then: func(on *bool, _ *[]converge.Cost, _ *error) { *on = true }, asked: 1, begun: 1},
		{name: "it costs nothing any more", before: holds("x"), then: func(_ *bool, costs *[]converge.Cost, _ *error) { *costs = nil }, asked: 3, begun: 2},
		{name: "it never cost anything", asked: 2, begun: 1},
		{name: "it cannot be seen", before: holds("x"), then: func(_ *bool, _ *[]converge.Cost, fails *error) { *fails = broken }, asked: 1, begun: 1,
			err: "s: the API is down"},
		{name: "nobody is asked", before: holds("x"), unapproved: true, begun: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			on, costs, begun, asked := false, c.before, 0, 0
			var fails error
			var abouts []bool
			s := &converge.Resource[bool]{ID: "s", Poll: time.Second,
				Observe: func(context.Context) (bool, error) { return on, fails },
				Diff:    func(on bool) converge.Diff { return converge.Compare("on", on, true, converge.Replace) },
				Costs: func(ctx context.Context, _ bool, _ converge.Diff) []converge.Cost {
					abouts = append(abouts, converge.AboutToAct(ctx))
					return costs
				},
			}
			agreed := &converge.Agreement{}
			agreed.Agree(holds("x")...)
			var g converge.Graph
			if !c.unapproved {
				g.Approve = func(ctx context.Context, it converge.Item) error {
					asked++
					assert.Equal(t, "s", it.Step)
					assert.Equal(t, converge.Change, it.Verdict)
					assert.NotEmpty(t, it.Diff)
					return agreed.Approve(ctx, it)
				}
			}
			s.Apply = func(ctx context.Context, _ bool) error {
				if begun++; begun == 1 && c.then != nil {
					c.then(&on, &costs, &fails)
				}
				approve := converge.ApproveFromContext(ctx)
				assert.Equal(t, c.unapproved, approve == nil, c.name)
				if err := converge.Confirm(ctx); err != nil {
					return err
				}
				on = true
				return nil
			}
			g.Add(s)
			_, err := g.Run(t.Context(), nil)
			if c.err == "" {
				require.NoError(t, err, c.name)
			} else {
				require.EqualError(t, err, c.err, c.name)
			}
			assert.Equal(t, fmt.Sprint(c.asked, c.begun), fmt.Sprint(asked, begun), c.name)
			for _, about := range abouts {
				assert.True(t, about, c.name)
			}
			_, err = g.Plan(t.Context())
			require.NoError(t, err)
			if !on && fails == nil {
				assert.False(t, abouts[len(abouts)-1], "a plan does not act")
			}
		})
	}
	require.NoError(t, converge.Confirm(t.Context()), "outside of an Act")
	assert.Nil(t, converge.ApproveFromContext(t.Context()))
}

// TestAStepOfItsOwn: one that is not a Resource costs nothing.
func TestAStepOfItsOwn(t *testing.T) {
	var g converge.Graph
	g.Add(bare{})
	assert.Equal(t, []string{"bare"}, g.Names())
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	over, end := context.WithCancel(t.Context())
	end()
	_, err = g.Plan(over)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []converge.Item{{Step: "bare", Verdict: converge.Change, Diff: converge.Missing("it")}}, plan.Items)
}

type bare struct{}

func (bare) Name() string { return "bare" }

func (bare) Check(context.Context) (converge.Diff, converge.Act, error) {
	return converge.Missing("it"), func(context.Context) error { return nil }, nil
}

// TestNoCosts: what nobody asks for is not determined; OnStart is called as each look begins.
func TestNoCosts(t *testing.T) {
	for _, no := range []bool{false, true} {
		var l lamp
		s := l.step("a")
		asked, starts := false, 0
		s.Costs = func(context.Context, bool, converge.Diff) []converge.Cost { asked = true; return nil }
		g := converge.Graph{NoCosts: no, OnStart: func() { starts++ }, Approve: func(context.Context, converge.Item) error { return nil }}
		g.Add(s)
		_, err := g.Plan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, !no, asked)
		asked = false
		_, err = g.Run(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, !no, asked)
		assert.Equal(t, 2, starts)
	}
}

// TestOnceAndLocal: what nothing in the world shows is done when it has run; a plan is silent about a step of this machine.
func TestOnceAndLocal(t *testing.T) {
	var runs int
	fails := errors.New("no")
	var g converge.Graph
	g.Add(&converge.Resource[bool]{ID: "once", Once: true, Observe: func(context.Context) (bool, error) { return false, nil },
		Diff:  func(bool) converge.Diff { return converge.Missing("a restart") },
		Apply: func(context.Context, bool) error { runs++; return fails }})
	local := (&lamp{}).step("local")
	local.Local = true
	g.Add(local)
	plan, err := g.Plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, converge.Item{Step: "local", Verdict: converge.Clean, Local: true}, plan.Items[1])
	for range 3 {
		_, err := g.Run(t.Context(), nil)
		if fails != nil {
			require.EqualError(t, err, "once: no")
			fails = nil
			continue
		}
		require.NoError(t, err)
	}
	assert.Equal(t, 2, runs)
	plan, err = g.Plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []converge.Item{{Step: "once", Verdict: converge.Clean}, {Step: "local", Verdict: converge.Clean}}, plan.Items)
}
