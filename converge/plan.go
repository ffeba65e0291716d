package converge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verdict is a plan's result for a step.
type Verdict string

// The verdicts.
const (
	Clean    Verdict = "clean"    // nothing differs
	Change   Verdict = "change"   // something differs, and Run would act
	Wait     Verdict = "wait"     // something differs, and Run would wait
	Deferred Verdict = "deferred" // cannot be checked before what it needs exists
	Failed   Verdict = "failed"   // the check failed
)

// Item is one step in a plan.
type Item struct {
	Step    string  `json:"step"`
	Verdict Verdict `json:"verdict"`
	Diff    Diff    `json:"diff,omitempty"`
	Costs   []Cost  `json:"costs,omitempty"`   // of a Change: what is destroyed or stopped
	Reason  string  `json:"because,omitempty"` // why deferred
	Local   bool    `json:"local,omitempty"`   // of a Clean one: a Run would write files on this machine
	Err     error   `json:"-"`
}

// Plan is what Run would do, as far as can be determined without doing it.
type Plan struct {
	Items []Item `json:"items"` // in the order of Add
}

// Changes reports whether there is anything to do.
func (p *Plan) Changes() bool {
	for _, it := range p.Items {
		if it.Verdict != Clean && it.Verdict != Failed {
			return true
		}
	}
	return false
}

// Converged reports whether a Run would find nothing to do, including files on this machine.
func (p *Plan) Converged() bool {
	return !slices.ContainsFunc(p.Items, func(it Item) bool { return it.Verdict != Clean || it.Local })
}

// Err returns the errors of failed checks, joined.
func (p *Plan) Err() error {
	var errs []error
	for _, it := range p.Items {
		if it.Err != nil {
			errs = append(errs, &StepError{Step: it.Step, Err: it.Err})
		}
	}
	return errors.Join(errs...)
}

// Plan checks every step and changes nothing. Errors of checks are in the items and in
// Plan.Err; the error returned here is a mistake in the graph, or ctx's.
func (g *Graph) Plan(ctx context.Context) (*Plan, error) { return g.PlanWithEvents(ctx, nil) }

// planTime bounds one check of a plan, so that one machine that hangs does not hold up the
// answer about all others.
const planTime = 30 * time.Second

// PlanWithEvents is Plan, and also reports each result to listen as soon as it is known. listen is
// never called concurrently.
func (g *Graph) PlanWithEvents(ctx context.Context, listen func(Event)) (*Plan, error) {
	if err := g.err(); err != nil {
		return nil, err
	}
	g.begin()
	items := make([]Item, len(g.nodes))
	r := &run{listen: listen}
	g.each(func(n *Ref) { items[n.index] = r.planStep(ctx, n, items) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Plan{Items: items}, nil
}

// planStep checks one step and describes the result.
func (r *run) planStep(ctx context.Context, n *Ref, items []Item) Item {
	begun := time.Now()
	tell := func(e Event) {
		e.Step, e.Time = n.step.Name(), time.Now()
		e.Elapsed = e.Time.Sub(begun)
		r.emit(e)
	}
	tell(Event{Kind: Checking})
	ctx = WithProgress(ctx, func(u ProgressUpdate) { tell(Event{Kind: Progress, Message: u.String()}) })
	it := itemOf(ctx, n, items)
	switch it.Verdict {
	case Clean:
		tell(Event{Kind: Unchanged})
	case Deferred:
		tell(Event{Kind: Skipped, Message: it.Reason})
	case Failed:
		tell(Event{Kind: FailedStep, Err: it.Err})
	default:
		tell(Event{Kind: Differs, Diff: it.Diff})
	}
	return it
}

func itemOf(ctx context.Context, n *Ref, items []Item) Item {
	it := Item{Step: n.step.Name()}
	for _, need := range n.needs {
		if why := blocks(items[need.index]); why != "" {
			it.Verdict, it.Reason = Deferred, why
			return it
		}
	}
	diff, act, costs, err := checkWithin(ctx, n, planTime, n.graph.checkFunc())
	switch {
	case err != nil:
		it.Verdict, it.Err = Failed, err
	case diff.Empty(), isLocal(n.step):
		it.Verdict, it.Local = Clean, !diff.Empty()
	case act == nil:
		it.Verdict, it.Diff = Wait, diff
	default:
		it.Verdict, it.Diff, it.Costs = Change, diff, costs
	}
	return it
}

// blocks says why a dependent of the step cannot be checked, or returns "". A thing that
// exists and only has to be changed or restarted can be checked, and so can its dependents.
func blocks(it Item) string {
	switch it.Verdict {
	case Failed:
		return fmt.Sprintf("%s could not be checked", it.Step)
	case Deferred:
		return "after " + it.Step
	case Change, Wait:
		for _, f := range it.Diff {
			if f.Effect == Create || f.Effect == Replace {
				return "after " + it.Step
			}
		}
	}
	return ""
}
