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

// spoken is what is said around work that was asked for by name.
type spoken struct {
	wish
	ChangeFlags
	nothing, done string
}

// builder makes a graph from what the cluster is at this moment.
type builder func(ctx context.Context) (*converge.Graph, error)

// confirmed does what a graph has to do, after having asked for what it costs. What
// was decided on the way to the graph is decided again once this run alone changes the
// cluster: another one may have, while somebody was asked or this one waited.
func (s *Session) confirmed(ctx context.Context, build builder, say spoken) error {
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
	defer right.giveBack(held)
	if err := right.first(ctx, held); err != nil {
		return err
	}
	graph, err := s.again(held, build, plan, asks)
	switch {
	case ctx.Err() != nil && err != nil:
		return over(ctx, err, "")
	case err != nil && errors.Is(context.Cause(held), lease.ErrLost):
		return notBegun(context.Cause(held), "")
	case err != nil:
		return err
	}
	graph.May = agreed.May
	right.over(held, graph)
	if _, err := run(held, s.Console, graph, say.wish); err != nil || say.done == "" {
		return err
	}
	s.Say("%s", say.done)
	return nil
}

// planned builds a graph, and looks at what it would do.
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

// again decides again; where somebody was asked, it looks again, too, and refuses where more
// would be done now than was agreed to.
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

// notShown lists what a plan would do, and cost, that an earlier one did not show. What
// could not be seen then comes of what could.
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

// sameAct reports whether two fields ask for the same. What is there may change by itself,
// as a count of pods does; where it is to go, it is what was agreed to.
func sameAct(a, b drift.Field) bool {
	return a.Path == b.Path && a.Want == b.Want && a.Effect == b.Effect && (a.Want != "" || a.Have == b.Have)
}

// loss is something that happens to a machine, or, where what is set, to what is on it.
type loss struct{ machine, kind, what string }

// losses are all that a plan showed.
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

// lack returns what of a cost was not shown. What is destroyed may be stopped; those that
// are only counted ("3 other pods") come and go.
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

// isCount reports whether users are said as a number, and not by name.
func isCount(users string) bool {
	number, _, words := strings.Cut(users, " ")
	_, err := strconv.Atoi(number)
	return words && err == nil
}
