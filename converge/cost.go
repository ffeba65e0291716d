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
	Enters   CostKind = "enter"   // this run gets a login there that it did not have
)

// Cost is what a change costs people, apart from the time of the run.
type Cost struct {
	Machine string   `json:"machine"`         // what is destroyed, stopped or logged in to, by name
	Kind    CostKind `json:"kind"`            // which of these
	Why     string   `json:"why,omitempty"`   // in a few words, e.g. "no longer in the file"
	Holds   []string `json:"holds,omitempty"` // what has data there, e.g. "data (200GiB)"
	Users   []string `json:"users,omitempty"` // whose work runs there
	Away    string   `json:"away,omitempty"`  // for how long, as measured: "2 to 10 min"
}

// String describes the cost, as in "wk-gpu1 is destroyed", "wk-gpu1 is stopped for 2 to 10
// min" or "a login is added to wk-gpu1".
func (c Cost) String() string {
	switch {
	case c.Kind == Destroys:
		return c.Machine + " is destroyed"
	case c.Kind == Enters:
		return "a login is added to " + c.Machine
	case c.Away == "":
		return c.Machine + " is stopped"
	}
	return c.Machine + " is stopped for " + c.Away
}

// Weigher is a [Step] that knows what its Act costs. Weigh does what Check does and also
// returns the costs; without a difference there are none. A plan weighs, and so does a run
// whose graph has a May; later checks use Check alone. Costs that cannot be determined, such
// as the users of a machine whose API is down, are described in the cost itself.
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

// weigh calls Weigh if the step has it, and Check otherwise.
func weigh(ctx context.Context, s Step) (drift.Diff, Act, []Cost, error) {
	if w, ok := s.(Weigher); ok {
		return w.Weigh(ctx)
	}
	return check(ctx, s)
}
