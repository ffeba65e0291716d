package converge

import (
	"context"
	"errors"
)

// acting is the step whose Act a context belongs to, and what it was to cost when it began.
type acting struct {
	step  *Ref
	costs []Cost
}

// actingKey is the key of an acting in a context.
type actingKey struct{}

func withActing(ctx context.Context, n *Ref, costs []Cost) context.Context {
	if n.graph.Approve == nil {
		return ctx
	}
	return context.WithValue(ctx, actingKey{}, acting{n, costs})
}

// errOver ends an Act that would work on what it has seen, and is not so any more: the step is
// checked again.
var errOver = errors.New("it has changed since the step began, which looks again")

// Confirm checks the step whose Act has this context again, with its costs, and asks
// [Graph.Approve] about them. An Act calls it right before what cannot be undone, if it has done
// or waited for something else before that: the world may have changed since the run asked. If
// nothing differs by now, or it costs nothing more, it returns a transient error,
// after which the step begins again.
func Confirm(ctx context.Context) error {
	a, ok := ctx.Value(actingKey{}).(acting)
	if !ok {
		return nil
	}
	diff, act, costs, err := checkWithin(acts(ctx), a.step, checkTime, a.step.graph.checkFunc())
	if err != nil {
		return err
	}
	if act == nil || len(a.costs) > 0 && len(costs) == 0 {
		return Transient(errOver)
	}
	return a.step.graph.Approve(ctx, Item{Step: a.step.step.Name(), Verdict: Change, Diff: diff, Costs: costs})
}

// aboutToActKey is the key of a context in which a step is weighed that acts next.
type aboutToActKey struct{}

func acts(ctx context.Context) context.Context { return context.WithValue(ctx, aboutToActKey{}, true) }

// AboutToAct reports whether a step is weighed that acts next, if it may: its costs are those of now, and
// not what an earlier step has seen.
func AboutToAct(ctx context.Context) bool { return ctx.Value(aboutToActKey{}) != nil }

// ApproveFromContext returns the [Graph.Approve] of the run whose Act has this context, for a graph that the
// Act runs; nil if it has none.
func ApproveFromContext(ctx context.Context) func(context.Context, Item) error {
	if a, ok := ctx.Value(actingKey{}).(acting); ok {
		return a.step.graph.Approve
	}
	return nil
}
