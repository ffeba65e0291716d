package converge

import (
	"context"

	"github.com/cps-gpu/homelab/converge/drift"
)

// CostKind is what happens to something that somebody may be using.
type CostKind string

// The kinds, the worse one first.
const (
	Destroys CostKind = "destroy" // what is on it is gone afterwards
	Stops    CostKind = "stop"    // it is away for a while, and comes back
	Enters   CostKind = "enter"   // whoever runs this gets a login there, and had none
)

// Cost is what closing a difference costs people, beyond the time of the run.
type Cost struct {
	Machine string   `json:"machine"`         // what is destroyed, stops or is entered, by name
	Kind    CostKind `json:"kind"`            // which of these
	Why     string   `json:"why,omitempty"`   // in a few words, e.g. "no longer in the file"
	Holds   []string `json:"holds,omitempty"` // what has data there, e.g. "data (200GiB)"
	Users   []string `json:"users,omitempty"` // whose work runs there
	Away    string   `json:"away,omitempty"`  // for how long, as measured: "2 to 10 min"
}

// String says what happens, as in "wk-gpu1 is destroyed", "wk-gpu1 is stopped, for 2 to
// 10 min" or "a login is added to wk-gpu1".
func (c Cost) String() string {
	switch {
	case c.Kind == Destroys:
		return c.Machine + " is destroyed"
	case c.Kind == Enters:
		return "a login is added to " + c.Machine
	case c.Away == "":
		return c.Machine + " is stopped"
	}
	return c.Machine + " is stopped, for " + c.Away
}

// Weigher is a [Step] that knows what its Act costs. Weigh is Check that says so, too;
// where it finds nothing to do, there is no cost. A plan weighs, and so does a run whose
// graph has a May; looking again afterwards is Check alone. What it cannot find out, such
// as who uses a machine whose API is away, it says within the cost.
type Weigher interface {
	Step
	Weigh(ctx context.Context) (drift.Diff, Act, []Cost, error)
}

// Weigh is Check, with what Costs says of the difference.
func (r *Resource[S]) Weigh(ctx context.Context) (drift.Diff, Act, []Cost, error) {
	seen, diff, act, err := r.look(ctx)
	if err != nil || act == nil || r.Costs == nil {
		return diff, act, nil, err
	}
	return diff, act, r.Costs(ctx, seen, diff), nil
}

// weigh is Weigh of a step that has it, and Check of any other.
func weigh(ctx context.Context, s Step) (drift.Diff, Act, []Cost, error) {
	if w, ok := s.(Weigher); ok {
		return w.Weigh(ctx)
	}
	return check(ctx, s)
}
