package session

import (
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
)

// spoken is what is said around work that was asked for by name.
type spoken struct {
	wish
	nothing, done string
}

// builder makes a graph from what the cluster is at this moment.
type builder func(ctx context.Context) (*converge.Graph, error)

// confirmed does what a graph has to do, after having asked for what it costs. What
// was decided on the way to the graph is decided again once this run alone changes the
// cluster: another one may have, while somebody was asked or this one waited.
func (s *Session) confirmed(ctx context.Context, build builder, say spoken) error {
	graph, err := build(ctx)
	if err != nil {
		return err
	}
	plan, err := s.look(ctx, graph)
	if err != nil {
		return err
	}
	if err := plan.Err(); err != nil {
		return err
	}
	if !plan.Changes() {
		s.Say("%s", say.nothing)
		return nil
	}
	agreed := &consent.Agreement{Everything: s.opt.Yes}
	asks := len(agreed.Lacking(plan)) > 0
	say.show = true
	if err := s.askFor(ctx, plan, agreed, say.wish); err != nil {
		return err
	}
	ctx, right := s.hold(ctx)
	defer right.giveBack(ctx)
	if err := right.take(ctx); err != nil {
		return notBegun(err)
	}
	if graph, err = build(ctx); err != nil {
		return err
	}
	if asks {
		if err := s.asShown(ctx, graph, plan); err != nil {
			return err
		}
	}
	graph.May = agreed.May
	right.over(ctx, graph)
	if _, err := run(ctx, s.Console, graph); err != nil || say.done == "" {
		return err
	}
	s.Say("%s", say.done)
	return nil
}

// asShown looks again, and refuses where more would be done now than was agreed to.
func (s *Session) asShown(ctx context.Context, graph *converge.Graph, shown *converge.Plan) error {
	now, err := s.look(ctx, graph)
	if err != nil {
		return err
	}
	if err := now.Err(); err != nil {
		return err
	}
	if more := notShown(now, shown); len(more) > 0 {
		return failedf(refused, "nothing was changed: the cluster is not what it was when you were asked, and this would be done, too:\n  %s\n"+
			"run it again", strings.Join(more, "\n  "))
	}
	return nil
}

// notShown lists what a plan would do that an earlier one did not show. What could not be
// seen then comes of what could.
func notShown(now, shown *converge.Plan) []string {
	var out []string
	for _, it := range now.Items {
		if it.Verdict != converge.Change {
			continue
		}
		i := slices.IndexFunc(shown.Items, func(was converge.Item) bool { return was.Step == it.Step })
		if i >= 0 && shown.Items[i].Verdict == converge.Deferred {
			continue
		}
		for _, f := range it.Diff {
			f.Note = ""
			known := i >= 0 && slices.ContainsFunc(shown.Items[i].Diff, func(was drift.Field) bool { was.Note = ""; return was == f })
			if !known {
				out = append(out, it.Step+": "+drift.Diff{f}.String())
			}
		}
	}
	return out
}
