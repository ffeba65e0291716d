package consent

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/converge"
)

// Agreement records what the user has agreed to. The zero Agreement agrees to nothing. It is safe
// for concurrent use once its fields are set.
type Agreement struct {
	Everything bool     // all costs of any kind
	Restarts   bool     // everything that stops and starts again
	Destroy    []string // what may be destroyed, by name, and stopped before that
	Logins     bool     // a login on machines that accept none of this run's keys

	mu    sync.Mutex
	shown map[thing]bool
}

// thing is one cost that the user agrees to: what happens, and to what.
type thing struct {
	name string
	kind converge.CostKind
}

// Agree adds the costs that the user has seen and accepted: these, each of its kind, and no others.
// Consent to destroy a thing includes consent to stop it.
func (a *Agreement) Agree(costs ...converge.Cost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = map[thing]bool{}
	}
	for _, c := range costs {
		a.shown[thing{c.Machine, c.Kind}] = true
	}
}

// covers reports whether the user agreed to a cost.
func (a *Agreement) covers(c converge.Cost) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Everything || a.shown[thing{c.Machine, c.Kind}] {
		return true
	}
	if c.Kind == converge.Enters { // which of what may be destroyed is not said with it
		return a.Logins
	}
	return a.Restarts && c.Kind == converge.Stops || slices.Contains(a.Destroy, c.Machine) || a.shown[thing{c.Machine, converge.Destroys}]
}

// Lacking returns the costs of a plan that the user has not agreed to, in the order of the plan.
func (a *Agreement) Lacking(p *converge.Plan) []converge.Cost {
	var out []converge.Cost
	for _, it := range p.Items {
		out = append(out, slices.DeleteFunc(slices.Clone(it.Costs), a.covers)...)
	}
	return out
}

// May is for [converge.Graph]. It returns nil if the user agreed to all costs of a change, and a
// [*RefusedError] otherwise.
func (a *Agreement) May(_ context.Context, it converge.Item) error {
	if lacking := slices.DeleteFunc(slices.Clone(it.Costs), a.covers); len(lacking) > 0 {
		return &RefusedError{Step: it.Step, Costs: lacking}
	}
	return nil
}

// RefusedError reports a change that was not made, because the user has not agreed to its costs.
type RefusedError struct {
	Step  string
	Costs []converge.Cost // those without consent
}

// Error says what would have happened to what, and what to do.
func (e *RefusedError) Error() string {
	var out []string
	for _, c := range e.Costs {
		text := c.String()
		if c.Why != "" {
			text += " (" + c.Why + ")"
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return "not done, since nobody has agreed to it: " + strings.Join(out, "; ") + "\n  run it again, and it asks"
}

// Flags returns the command-line flags that agree to exactly these costs.
func Flags(costs ...converge.Cost) string {
	var flags, destroyed []string
	kinds := map[converge.CostKind]bool{}
	for _, c := range costs {
		kinds[c.Kind] = true
		if c.Kind == converge.Destroys {
			destroyed = append(destroyed, c.Machine)
		}
	}
	if kinds[converge.Enters] {
		flags = append(flags, "-login")
	}
	if kinds[converge.Stops] {
		flags = append(flags, "-restart")
	}
	if len(destroyed) > 0 {
		slices.Sort(destroyed)
		flags = append(flags, "-destroy="+strings.Join(slices.Compact(destroyed), ","))
	}
	return strings.Join(flags, " ")
}
