package converge

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Graph has steps and their dependencies. The zero Graph is empty and ready for use. Build it
// in one goroutine; then any number of Plans and Runs may follow, one at a time.
type Graph struct {
	// Patience multiplies how long steps may settle and checks may take; 0 is 1.
	Patience int
	// TimeoutHint says how to give a step more time, for the error of a step that timed out; may
	// be empty.
	TimeoutHint string
	// OnStart is called as each Look or Run begins, so that the steps forget what they have seen in
	// an earlier one. May be nil.
	OnStart func()
	// BeforeActing is called at most once in a run, before the first Act and before any wait; a
	// run with nothing to do does not call it. Steps that differed before it returned are
	// checked again, because the world may have changed in the meantime. If it fails,
	// nothing is done and Run returns its error. Its progress is reported as that of the
	// step that would have acted first. May be nil.
	BeforeActing func(ctx context.Context) error
	// Approve is asked before every Act, with the result of the latest check: Step, Diff and
	// Costs. An error refuses the Act: the step fails, steps that need it are skipped, and
	// the others continue. A step that is checked again after a transient error is asked about
	// again; so is one whose Act calls [Confirm], and, as long as it may settle, one that is refused
	// because what it costs could not be seen ([RefusedError.Transient]). It is called concurrently.
	// May be nil.
	Approve func(ctx context.Context, it Item) error
	// NoCosts says that nobody is asked for consent, so what the changes cost is not determined:
	// that may take long if machines do not answer. Items have no Costs then.
	NoCosts bool

	nodes []*Ref
	names map[string]bool
	errs  []error
}

// Ref refers to a step of a graph, so that other steps can need it.
type Ref struct {
	graph *Graph
	index int
	step  Step
	needs []*Ref
}

// patient is a limit multiplied by this graph's patience.
func (g *Graph) patient(limit time.Duration) time.Duration {
	return limit * time.Duration(max(g.Patience, 1))
}

// Add adds a step to the graph, after the steps that it needs; nil needs are ignored. There
// are no cycles, because a Ref exists only after its step was added. Mistakes (a name used
// twice, a Ref of another graph) are returned by Plan and Run.
func (g *Graph) Add(s Step, needs ...*Ref) *Ref {
	if g.names == nil {
		g.names = map[string]bool{}
	}
	if g.names[s.Name()] {
		g.errs = append(g.errs, fmt.Errorf("converge: step %q was added twice", s.Name()))
	}
	g.names[s.Name()] = true
	r := &Ref{graph: g, index: len(g.nodes), step: s}
	for _, n := range needs {
		switch {
		case n == nil:
		case n.graph != g:
			g.errs = append(g.errs, fmt.Errorf("converge: step %q needs %q of another graph", s.Name(), n.step.Name()))
		default:
			r.needs = append(r.needs, n)
		}
	}
	g.nodes = append(g.nodes, r)
	return r
}

// Names returns the steps' names in the order of Add.
func (g *Graph) Names() []string {
	names := make([]string, len(g.nodes))
	for i, n := range g.nodes {
		names[i] = n.step.Name()
	}
	return names
}

func (g *Graph) begin() {
	if g.OnStart != nil {
		g.OnStart()
	}
}

// checkFunc returns how a step is checked whose costs somebody may ask for.
func (g *Graph) checkFunc() checkFunc {
	if g.NoCosts {
		return check
	}
	return checkWithCosts
}

func (g *Graph) err() error { return errors.Join(g.errs...) }

// each runs work for every step in its own goroutine, after the steps that it needs have
// returned, and returns when all have.
func (g *Graph) each(work func(*Ref)) {
	done := make([]chan struct{}, len(g.nodes))
	for i := range done {
		done[i] = make(chan struct{})
	}
	for _, n := range g.nodes {
		go func() {
			defer close(done[n.index])
			for _, need := range n.needs {
				<-done[need.index]
			}
			work(n)
		}()
	}
	for _, d := range done {
		<-d
	}
}
