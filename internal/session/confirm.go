package session

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
)

// builder makes a graph from the present state of the cluster.
type builder func(ctx context.Context) (*converge.Graph, error)

// runConfirmed runs a graph after asking about its costs. Once the run holds the lease, it builds
// the graph again, because another run may have changed the cluster while it asked or waited.
func (s *Session) runConfirmed(ctx context.Context, build builder, say Change) error {
	if say.Yes {
		build = withoutCosts(build)
	}
	_, plan, err := s.buildPlan(ctx, build)
	if err != nil {
		return interruptionError(ctx, err, "")
	}
	if !plan.Changes() {
		s.Printf("%s", say.Nothing)
		return nil
	}
	agreed := &converge.Agreement{Everything: say.Yes}
	asks := len(agreed.NotAgreed(plan)) > 0
	say.show = true
	if err := s.askAboutCosts(ctx, plan, agreed, say); err != nil {
		return err
	}
	held, right := s.hold(ctx, say.NoWait)
	defer right.release(held)
	if err := right.acquireFirst(ctx, held); err != nil {
		return err
	}
	graph, err := s.rebuild(held, build, plan, agreed, asks, say)
	switch {
	case ctx.Err() != nil && err != nil:
		return interruptionError(ctx, err, "")
	case err != nil && errors.Is(context.Cause(held), converge.ErrLeaseLost):
		return notStartedError(context.Cause(held), "")
	case err != nil:
		return err
	}
	graph.Approve = agreed.Approve
	right.guard(held, graph)
	if _, err := s.recordRun(s.runAgreed(held, graph, agreed, say)); err != nil || say.Done == "" {
		return err
	}
	s.Printf("%s", say.Done)
	return nil
}

// withoutCosts builds graphs of which nobody asks what they cost.
func withoutCosts(build builder) builder {
	return func(ctx context.Context) (*converge.Graph, error) {
		g, err := build(ctx)
		if g != nil {
			g.NoCosts = true
		}
		return g, err
	}
}

// buildPlan builds a graph and its plan.
func (s *Session) buildPlan(ctx context.Context, build builder) (*converge.Graph, *converge.Plan, error) {
	graph, err := build(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan, err := s.plan(ctx, graph)
	if err != nil {
		return nil, nil, err
	}
	return graph, plan, plan.Err()
}

// rebuild builds the graph again. If somebody was asked, it also plans again: more than was agreed
// to needs another answer, or is refused if there is nobody to ask.
func (s *Session) rebuild(ctx context.Context, build builder, shown *converge.Plan, agreed *converge.Agreement, asked bool,
	w Change) (*converge.Graph, error) {
	if !asked {
		return build(ctx)
	}
	for {
		graph, now, err := s.buildPlan(ctx, build)
		if err != nil {
			return nil, err
		}
		lacking := agreed.NotAgreed(now)
		more := append(newChanges(now, shown), converge.DescribeCosts(lacking...)...)
		if len(more) == 0 {
			return graph, nil
		}
		list := "the cluster has changed since you were asked, and this would be done too:\n  " + strings.Join(more, "\n  ")
		if !s.isInteractive() {
			return nil, exitErrorf(refused, "nothing was changed: %s\nrun it again", list)
		}
		s.Printf("%s", capital(list))
		question, answers := s.questionFor(lacking, w)
		if err := s.ask(ctx, question, answers...); err != nil {
			return nil, err
		}
		agreed.Agree(lacking...)
		shown = now
	}
}

// newChanges lists the changes of a plan that an earlier one did not show. Steps that could not be
// checked then follow from those that could. What they cost, [converge.Agreement] compares.
func newChanges(now, shown *converge.Plan) []string {
	var out []string
	for _, it := range now.Items {
		i := slices.IndexFunc(shown.Items, func(was converge.Item) bool { return was.Step == it.Step })
		if it.Verdict != converge.Change || i >= 0 && shown.Items[i].Verdict == converge.Deferred {
			continue
		}
		for _, f := range it.Diff {
			if i < 0 || !slices.ContainsFunc(shown.Items[i].Diff, func(was converge.Field) bool { return sameChange(was, f) }) {
				f.Note = ""
				out = append(out, it.Step+": "+converge.Diff{f}.String())
			}
		}
	}
	return out
}

// sameChange reports whether two fields want the same change. The observed value may change by
// itself, such as a count of pods; the agreement is about the wanted value.
func sameChange(a, b converge.Field) bool {
	return a.Path == b.Path && a.Want == b.Want && a.Effect == b.Effect && (a.Want != "" || a.Have == b.Have)
}
