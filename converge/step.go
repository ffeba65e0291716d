package converge

import (
	"context"
	"time"

	"github.com/cps-gpu/homelab/converge/drift"
)

// Act closes a difference that a Check has found.
type Act func(ctx context.Context) error

// Step is one thing to be brought about. Implementations are safe for use by one
// goroutine at a time; Resource is the implementation that nearly all want.
type Step interface {
	// Name identifies the step within its graph, e.g. "vm/wk-gpu1".
	Name() string
	// Check looks, without changing anything. An empty Diff means done; otherwise
	// the Act closes the difference. A nil Act means that time will.
	Check(ctx context.Context) (drift.Diff, Act, error)
}

// Defaults of a [Resource]'s patience.
const (
	DefaultSettle = 5 * time.Minute
	DefaultPoll   = time.Second
)

// Resource is a Step made of a look, a pure comparison and an action; S is the
// state that Observe sees.
type Resource[S any] struct {
	ID      string
	Observe func(ctx context.Context) (S, error)
	Diff    func(S) drift.Diff
	Apply   func(ctx context.Context, seen S) error // nil: wait until Diff is empty
	// Costs says what Apply would destroy or stop to close diff, which is not empty;
	// nil: nothing that anybody misses.
	Costs func(ctx context.Context, seen S, diff drift.Diff) []Cost

	// Settle is how long, after Apply, looking again may still find a difference
	// or fail (0: DefaultSettle).
	Settle time.Duration
	// Poll is the time between looks while settling (0: DefaultPoll).
	Poll time.Duration
	// Hint says what a person can do when Settle was not enough; may be empty.
	Hint string
	// Local says that what Apply does is to files on this machine alone, such as a
	// kubeconfig: a Run keeps them, and a Plan, which is about the world, is not about them.
	Local bool
}

// Name returns the ID.
func (r *Resource[S]) Name() string { return r.ID }

// Check observes and compares.
func (r *Resource[S]) Check(ctx context.Context) (drift.Diff, Act, error) {
	_, diff, act, err := r.look(ctx)
	return diff, act, err
}

func (r *Resource[S]) look(ctx context.Context) (seen S, diff drift.Diff, act Act, err error) {
	if seen, err = r.Observe(ctx); err != nil {
		return seen, nil, nil, err
	}
	diff = r.Diff(seen)
	if diff.Empty() || r.Apply == nil {
		return seen, diff, nil, nil
	}
	return seen, diff, func(ctx context.Context) error { return r.Apply(ctx, seen) }, nil
}

// patience is implemented by steps that say how long they may take to settle.
type patience interface {
	patience() (settle, poll time.Duration, hint string)
}

func (r *Resource[S]) patience() (settle, poll time.Duration, hint string) {
	return r.Settle, r.Poll, r.Hint
}

// local is implemented by steps that may be about this machine alone.
type local interface{ local() bool }

func (r *Resource[S]) local() bool { return r.Local }

func isLocal(s Step) bool {
	l, ok := s.(local)
	return ok && l.local()
}

func patienceOf(s Step) (settle, poll time.Duration, hint string) {
	if p, ok := s.(patience); ok {
		settle, poll, hint = p.patience()
	}
	if settle == 0 {
		settle = DefaultSettle
	}
	if poll == 0 {
		poll = DefaultPoll
	}
	return settle, poll, hint
}
