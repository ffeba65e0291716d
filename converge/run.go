package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Run checks every step as soon as the steps that it needs are done, and acts where
// something differs. It returns the joined errors of the steps that failed, nil when all are
// done. When ctx ends, Run returns after its goroutines, with an error that wraps ctx.Err().
// If g.Before fails, Run returns its error, and every step that had something to do is
// Cancelled.
//
// listen, if not nil, receives the events; it is never called concurrently.
func (g *Graph) Run(ctx context.Context, listen func(Event)) (*Report, error) {
	if err := g.err(); err != nil {
		return nil, err
	}
	g.begin()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{listen: listen, reports: make([]StepReport, len(g.nodes)), gate: newGate(g.BeforeActing, cancel)}
	g.each(func(n *Ref) { r.step(inner, n) })
	report := &Report{Steps: r.reports}
	if err := ctx.Err(); err != nil {
		return report, errors.Join(causeOf(ctx), unlessContextError(r.gate.refused), report.err())
	}
	return report, errors.Join(r.gate.refused, report.err())
}

// causeOf returns why a context is over: its cause, and [context.Context.Err] with it.
func causeOf(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if errors.Is(cause, err) {
		return cause
	}
	return errors.Join(cause, err)
}

type run struct {
	mu      sync.Mutex
	listen  func(Event)
	reports []StepReport // each written by its step's goroutine alone
	gate    *gate
}

// step runs one step from its first check to its end.
func (r *run) step(ctx context.Context, n *Ref) {
	rep := &r.reports[n.index]
	*rep = StepReport{Step: n.step.Name(), Started: time.Now()}
	for _, need := range n.needs {
		rep.Needs = append(rep.Needs, need.step.Name())
	}
	emit := func(e Event) {
		e.Step, e.Time = rep.Step, time.Now()
		e.Elapsed = e.Time.Sub(rep.Started)
		r.emit(e)
	}
	end := func(k Kind, message string, err error) {
		rep.Kind, rep.Ended, rep.Err = k, time.Now(), err
		emit(Event{Kind: k, Message: message, Err: err})
	}
	for _, need := range n.needs {
		if k := r.reports[need.index].Kind; k != Changed && k != Unchanged {
			end(Skipped, "needs "+need.step.Name(), nil)
			return
		}
	}
	ctx = WithProgress(ctx, func(u ProgressUpdate) { emit(Event{Kind: Progress, Message: u.String()}) })
	changed, err := r.converge(ctx, n, emit)
	switch {
	case err != nil && ctx.Err() != nil:
		end(Cancelled, "", unlessContextError(err))
	case err != nil:
		end(FailedStep, "", err)
	case changed:
		end(Changed, "", nil)
	default:
		end(Unchanged, "", nil)
	}
}

func (r *run) emit(e Event) {
	if r.listen == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listen(e)
}

// converge checks, acts and settles one step. After a transient error it starts again with a
// check, as a second run would, until the step's time is over.
func (r *run) converge(ctx context.Context, n *Ref, emit func(Event)) (changed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	emit(Event{Kind: Checking})
	emit = withoutRepeats(emit)
	changed, err = r.attempt(ctx, n, emit)
	if err == nil || ctx.Err() != nil || !IsTransient(err) {
		return changed, err
	}
	if !r.gate.isOpen() {
		if over := r.gate.pass(ctx); over != nil {
			return false, errors.Join(err, over)
		}
	}
	last, rule := settleRule(n)
	last.Err, rule.Last, rule.Strict = err, err.Error(), true
	rule.OnChange = func(string) { emit(Event{Kind: Waiting, Message: last.reason()}) }
	over := Until(ctx, rule, func(context.Context) (string, error) { // an attempt is not cut short
		acted, err := r.attempt(ctx, n, emit)
		changed, last.Err = changed || acted, err
		return "", err
	})
	switch {
	case over == nil, !IsTransient(last.Err):
		return changed, last.Err
	case ctx.Err() != nil:
		return changed, errors.Join(last.Err, ctx.Err())
	}
	return changed, last
}

// withoutRepeats omits an Acting with the difference of the one before: a step that is tried again
// shows why, and a repeated Acting would displace that.
func withoutRepeats(emit func(Event)) func(Event) {
	var shown Diff
	return func(e Event) {
		if e.Kind == Acting {
			if slices.Equal(e.Diff, shown) {
				return
			}
			shown = e.Diff
		}
		emit(e)
	}
}

// settleRule is how long a step may settle, and the error of a step that needs longer.
func settleRule(n *Ref) (*NotConvergedError, WaitRule) {
	limit, poll, hint := patienceOf(n.step)
	limit = n.graph.patient(limit)
	return &NotConvergedError{After: limit, Hint: hint, TimeoutHint: n.graph.TimeoutHint}, WaitRule{What: n.step.Name(), Limit: limit,
		Poll: poll}
}

// attempt is one try at a step; acted reports whether there was something to do.
func (r *run) attempt(ctx context.Context, n *Ref, emit func(Event)) (acted bool, err error) {
	diff, act, costs, err := r.checkApproved(ctx, n)
	if err != nil || diff.Empty() {
		return false, err
	}
	if act != nil {
		emit(Event{Kind: Acting, Diff: diff})
		if err := act(withActing(ctx, n, costs)); err != nil {
			return true, err
		}
		diff = nil
	}
	return true, settle(ctx, n, diff, emit)
}

// checkApproved checks a step. It returns a difference only after Before has returned, because
// waiting for something that another run removes would be in vain, and an Act only if May
// does not refuse it, with its costs.
func (r *run) checkApproved(ctx context.Context, n *Ref) (Diff, Act, []Cost, error) {
	by, may := checkFunc(check), n.graph.Approve
	if may != nil {
		by = n.graph.checkFunc()
	}
	for {
		begun := r.gate.isOpen()
		now := ctx
		if begun {
			now = acts(ctx)
		}
		diff, act, costs, err := checkWithin(now, n, checkTime, by)
		switch {
		case err != nil || diff.Empty():
			return nil, nil, nil, err
		case !begun:
			if err := r.gate.pass(ctx); err != nil {
				return nil, nil, nil, err
			}
		case act == nil || may == nil:
			return diff, act, nil, nil
		default:
			err := may(ctx, Item{Step: n.step.Name(), Verdict: Change, Diff: diff, Costs: costs})
			if no := (*RefusedError)(nil); errors.As(err, &no) && no.unseen {
				return nil, nil, nil, err
			}
			return diff, act, costs, Permanent(err)
		}
	}
}

// checkTime bounds one check: a command that hangs on a machine must not hang the run.
const checkTime = 5 * time.Minute

// checkFunc is a way to look at a step: weigh or check.
type checkFunc = func(context.Context, Step) (Diff, Act, []Cost, error)

// check looks at a step and does not ask for costs.
func check(ctx context.Context, s Step) (Diff, Act, []Cost, error) {
	diff, act, err := s.Check(ctx)
	return diff, act, nil, err
}

func checkWithin(ctx context.Context, n *Ref, limit time.Duration, by checkFunc) (Diff, Act, []Cost, error) {
	limit = n.graph.patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		errors.New("checking took longer than "+shortDuration(limit)+inParentheses(n.graph.TimeoutHint)))
	defer cancel()
	diff, act, costs, err := by(ctx, n.step)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, nil, nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return diff, act, costs, err
}

// settle checks until nothing differs or the step's time is over. seen is the result of the
// last check, nil if there was none.
func settle(ctx context.Context, n *Ref, seen Diff, emit func(Event)) error {
	last, rule := settleRule(n)
	last.Diff, rule.Last = seen, seen.String()
	rule.OnChange = func(string) { emit(Event{Kind: Waiting, Diff: last.Diff, Message: last.reason()}) }
	err := Until(ctx, rule, func(limited context.Context) (string, error) {
		diff, _, _, err := checkWithin(limited, n, checkTime, check)
		if err == nil && diff.Empty() {
			return "", nil
		}
		if last.reason() == "" || !cutShort(limited, err) {
			last.Diff, last.Err = diff, err
		}
		return cmp.Or(diff.String(), "it differs"), err
	})
	switch {
	case err == nil, IsPermanent(err):
		return err
	case ctx.Err() != nil:
		return errors.Join(last.Err, ctx.Err())
	}
	return last
}

func (e *NotConvergedError) reason() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Diff.String()
}

// StepReport is the outcome of a step.
type StepReport struct {
	Step    string
	Needs   []string
	Kind    Kind
	Started time.Time // when all steps that it needs were done
	Ended   time.Time
	Err     error
}

// Report is the outcome of a run, in the order of Add.
type Report struct {
	Steps []StepReport
}

// Count returns how many steps ended as k.
func (r *Report) Count(k Kind) int {
	n := 0
	for _, s := range r.Steps {
		if s.Kind == k {
			n++
		}
	}
	return n
}

// Step returns the report of the named step.
func (r *Report) Step(step string) (StepReport, bool) {
	i := slices.IndexFunc(r.Steps, func(s StepReport) bool { return s.Step == step })
	if i < 0 {
		return StepReport{}, false
	}
	return r.Steps[i], true
}

func (r *Report) err() error {
	var errs []error
	for _, s := range r.Steps {
		if s.Err != nil {
			errs = append(errs, &StepError{Step: s.Step, Err: s.Err})
		}
	}
	return errors.Join(errs...)
}
