package session

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/lease"
)

// spoken has the messages of a command.
type spoken struct {
	wish
	ChangeFlags
	nothing, done string
}

// builder makes a graph from the present state of the cluster.
type builder func(ctx context.Context) (*converge.Graph, error)

// confirmed runs a graph after asking about its costs. Once the run holds the lease, it builds
// the graph again, because another run may have changed the cluster while it asked or waited.
func (s *Session) confirmed(ctx context.Context, build builder, say spoken) error {
	if say.Yes {
		build = withoutCosts(build)
	}
	_, plan, err := s.planned(ctx, build)
	if err != nil {
		return over(ctx, err, "")
	}
	if !plan.Changes() {
		s.Say("%s", say.nothing)
		return nil
	}
	agreed := &consent.Agreement{Everything: say.Yes}
	asks := len(agreed.Lacking(plan)) > 0
	say.show = true
	if err := s.askFor(ctx, plan, agreed, say.wish); err != nil {
		return err
	}
	held, right := s.hold(ctx, say.NoWait)
	defer right.release(held)
	if err := right.first(ctx, held); err != nil {
		return err
	}
	graph, err := s.again(held, build, plan, asks)
	switch {
	case ctx.Err() != nil && err != nil:
		return over(ctx, err, "")
	case err != nil && errors.Is(context.Cause(held), lease.ErrLost):
		return notStarted(context.Cause(held), "")
	case err != nil:
		return err
	}
	graph.May = agreed.May
	right.over(held, graph)
	if _, err := s.ran(run(held, s.Console, graph, say.wish)); err != nil || say.done == "" {
		return err
	}
	s.Say("%s", say.done)
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

// planned builds a graph and its plan.
func (s *Session) planned(ctx context.Context, build builder) (*converge.Graph, *converge.Plan, error) {
	graph, err := build(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan, err := s.look(ctx, graph)
	if err != nil {
		return nil, nil, err
	}
	return graph, plan, plan.Err()
}

// again builds the graph again; if somebody was asked, it also plans again, and refuses if
// more would be done now than was agreed to.
func (s *Session) again(ctx context.Context, build builder, shown *converge.Plan, asked bool) (*converge.Graph, error) {
	if !asked {
		return build(ctx)
	}
	graph, now, err := s.planned(ctx, build)
	if err != nil {
		return nil, err
	}
	if more := notShown(now, shown); len(more) > 0 {
		return nil, failedf(refused, "nothing was changed: the cluster has changed since you were asked, and this would be done too:\n  %s\n"+
			"run it again", strings.Join(more, "\n  "))
	}
	return graph, nil
}

// notShown lists the changes and costs of a plan that an earlier one did not show. Steps that
// could not be checked then follow from those that could.
func notShown(now, shown *converge.Plan) []string {
	var out []string
	was := costsShown(shown)
	for _, it := range now.Items {
		if it.Verdict != converge.Change {
			continue
		}
		i := slices.IndexFunc(shown.Items, func(was converge.Item) bool { return was.Step == it.Step })
		if i < 0 || shown.Items[i].Verdict != converge.Deferred {
			for _, f := range it.Diff {
				if i < 0 || !slices.ContainsFunc(shown.Items[i].Diff, func(was drift.Field) bool { return sameAct(was, f) }) {
					f.Note = ""
					out = append(out, it.Step+": "+drift.Diff{f}.String())
				}
			}
		}
		for _, c := range it.Costs {
			for _, text := range was.lack(c) {
				if !slices.Contains(out, text) {
					out = append(out, text)
				}
			}
		}
	}
	return out
}

// sameAct reports whether two fields want the same change. The observed value may change by
// itself, such as a count of pods; the agreement is about the wanted value.
func sameAct(a, b drift.Field) bool {
	return a.Path == b.Path && a.Want == b.Want && a.Effect == b.Effect && (a.Want != "" || a.Have == b.Have)
}

// loss is something that happens to a machine, or, if what is set, to what is on it.
type loss struct{ machine, kind, what string }

// losses are all losses that a plan showed.
type losses map[loss]bool

func costsShown(p *converge.Plan) losses {
	out := losses{}
	for _, it := range p.Items {
		for _, c := range it.Costs {
			out[loss{c.Machine, string(c.Kind), ""}] = true
			for _, what := range slices.Concat(c.Users, c.Holds) {
				out[loss{c.Machine, "", what}] = true
			}
		}
	}
	return out
}

// lack returns the part of a cost that was not shown. A machine that may be destroyed may also
// be stopped; users that are only counted ("3 other pods") are ignored.
func (l losses) lack(c converge.Cost) []string {
	var out []string
	destroyed := c.Kind != converge.Enters && l[loss{c.Machine, string(converge.Destroys), ""}]
	if !destroyed && !l[loss{c.Machine, string(c.Kind), ""}] {
		out = append(out, c.String())
	}
	for _, what := range slices.Concat(c.Users, c.Holds) {
		counted := isCount(what) && slices.Contains(c.Users, what)
		if !counted && !l[loss{c.Machine, "", what}] {
			out = append(out, c.String()+", and with it "+what)
		}
	}
	return out
}

// isCount reports whether users are given as a number, not by name.
func isCount(users string) bool {
	number, _, words := strings.Cut(users, " ")
	_, err := strconv.Atoi(number)
	return words && err == nil
}
