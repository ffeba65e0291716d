package converge

import "context"

// acting is the key of the step whose Act a context belongs to.
type acting struct{}

func asking(ctx context.Context, n *Ref) context.Context {
	if n.graph.May == nil {
		return ctx
	}
	return context.WithValue(ctx, acting{}, n)
}

// Confirm checks the step whose Act has this context again, with its costs, and asks
// [Graph.May] about them. An Act calls it right before what cannot be undone, if it has done
// or waited for something else before that: the world may have changed since the run asked.
func Confirm(ctx context.Context) error {
	n, ok := ctx.Value(acting{}).(*Ref)
	if !ok {
		return nil
	}
	diff, act, costs, err := look(ctx, n, lookTime, weigh)
	if err != nil || act == nil {
		return err
	}
	return n.graph.May(ctx, Item{Step: n.step.Name(), Verdict: Change, Diff: diff, Costs: costs})
}

// Asking returns the [Graph.May] of the run whose Act has this context, for a graph that the
// Act runs; nil if it has none.
func Asking(ctx context.Context) func(context.Context, Item) error {
	if n, ok := ctx.Value(acting{}).(*Ref); ok {
		return n.graph.May
	}
	return nil
}
