package converge

import (
	"context"
	"time"
)

// Act closes a difference that a Check has found.
type Act func(ctx context.Context) error

// Step is one thing to bring to its wanted state. An implementation is used by one goroutine
// at a time. Nearly all steps are a [Resource].
type Step interface {
	// Name identifies the step within its graph, e.g. "vm/wk-gpu1".
	Name() string
	// Check observes without changing anything. An empty Diff means done; otherwise the Act
	// closes the difference. A nil Act means that the difference will close by itself.
	Check(ctx context.Context) (Diff, Act, error)
}

// Defaults of a [Resource]'s patience.
const (
	defaultSettle = 5 * time.Minute
	defaultPoll   = time.Second
)

// Resource is a Step made of an observation, a pure comparison and an action; S is the state
// that Observe returns.
type Resource[S any] struct {
	ID      string
	Observe func(ctx context.Context) (S, error)
	Diff    func(S) Diff
	Apply   func(ctx context.Context, seen S) error // nil: wait until Diff is empty
	// Costs returns what Apply would destroy or stop to close diff, which is not empty; nil:
	// nothing that anybody would miss.
	Costs func(ctx context.Context, seen S, diff Diff) []Cost

	// Settle is how long after Apply a check may still find a difference or fail (0:
	// defaultSettle).
	Settle time.Duration
	// Poll is the time between checks while settling (0: defaultPoll).
	Poll time.Duration
	// Hint says what a person can do if Settle was not enough; may be empty.
	Hint string
	// Once says that nothing in the world shows whether Apply has run, as of a restart: the step is
	// done when it has.
	Once bool
	// Local says that Apply changes only files on this machine, such as a kubeconfig. A Run
	// keeps them up to date; a Plan, which is about the world, does not report them.
	Local bool

	applied bool // of Once
}

// Name returns the ID.
func (r *Resource[S]) Name() string { return r.ID }

// Check observes and compares.
func (r *Resource[S]) Check(ctx context.Context) (Diff, Act, error) {
	_, diff, act, err := r.check(ctx)
	return diff, act, err
}

func (r *Resource[S]) check(ctx context.Context) (seen S, diff Diff, act Act, err error) {
	if r.applied {
		return seen, nil, nil, nil
	}
	if seen, err = r.Observe(ctx); err != nil {
		return seen, nil, nil, err
	}
	diff = r.Diff(seen)
	if diff.Empty() || r.Apply == nil {
		return seen, diff, nil, nil
	}
	return seen, diff, func(ctx context.Context) error {
		err := r.Apply(ctx, seen)
		r.applied = r.Once && err == nil
		return err
	}, nil
}

// settleTimer is implemented by steps that set how long they may settle.
type settleTimer interface {
	settleTime() (settle, poll time.Duration, hint string)
}

func (r *Resource[S]) settleTime() (settle, poll time.Duration, hint string) {
	return r.Settle, r.Poll, r.Hint
}

// localStep is implemented by steps that may concern this machine only.
type localStep interface{ isLocal() bool }

func (r *Resource[S]) isLocal() bool { return r.Local }

func isLocal(s Step) bool {
	l, ok := s.(localStep)
	return ok && l.isLocal()
}

func patienceOf(s Step) (settle, poll time.Duration, hint string) {
	if p, ok := s.(settleTimer); ok {
		settle, poll, hint = p.settleTime()
	}
	if settle == 0 {
		settle = defaultSettle
	}
	if poll == 0 {
		poll = defaultPoll
	}
	return settle, poll, hint
}
