package converge

import (
	"context"
)

// CostKind is what happens to something that somebody may be using.
type CostKind string

// The kinds, the worse one first.
const (
	CostDestroy CostKind = "destroy" // what is on it is gone afterwards
	CostStop    CostKind = "stop"    // it is away for a while, and comes back
	CostLogin   CostKind = "enter"   // this run gets a login there that it did not have
)

// Cost is what a change costs people, apart from the time of the run. Its JSON is for people
// and has no identities.
type Cost struct {
	Machine  string   `json:"machine"`         // what is destroyed, stopped or logged in to, by name
	Object   string   `json:"-"`               // what bears that name, if other things may bear it too: "node", "part"
	Identity string   `json:"-"`               // which one bears it now, such as a VMID with its UUID; empty: the name is all
	Kind     CostKind `json:"kind"`            // which of these
	Reason   string   `json:"why,omitempty"`   // in a few words, e.g. "no longer in the file"
	Holds    []Loss   `json:"holds,omitempty"` // what has data there, e.g. "data (200GiB)"
	Users    []Loss   `json:"users,omitempty"` // whose work runs there
	Downtime string   `json:"away,omitempty"`  // for how long, as measured: "2 to 10 min"
}

// Loss is one thing that ends or is gone with a [Cost].
type Loss struct {
	Text string // for people: "disk data (200GiB)"
	// ID is the same whenever the same thing is seen again, such as the id of its volume, while
	// Text may change. Empty: Text is.
	ID string
	// Counted is a number of things that are recreated. It changes by itself, so nobody is asked
	// about it again.
	Counted bool
	// Unknown means that it could not be seen what is lost.
	Unknown bool
}

// String returns the text.
func (l Loss) String() string { return l.Text }

// MarshalText returns the text.
func (l Loss) MarshalText() ([]byte, error) { return []byte(l.Text), nil }

// UnmarshalText sets the text.
func (l *Loss) UnmarshalText(b []byte) error {
	*l = Loss{Text: string(b)}
	return nil
}

// LossTexts returns the texts of losses.
func LossTexts(all []Loss) []string {
	var out []string
	for _, l := range all {
		out = append(out, l.Text)
	}
	return out
}

// String describes the cost, as in "wk-gpu1 is destroyed", "wk-gpu1 is stopped for 2 to 10
// min" or "a login is added to wk-gpu1".
func (c Cost) String() string {
	switch {
	case c.Kind == CostDestroy:
		return c.Machine + " is destroyed"
	case c.Kind == CostLogin:
		return "a login is added to " + c.Machine
	case c.Downtime == "":
		return c.Machine + " is stopped"
	}
	return c.Machine + " is stopped for " + c.Downtime
}

// costChecker is a [Step] that knows what its Act costs. weigh does what Check does and also
// returns the costs; without a difference there are none. A plan weighs, and so does a run
// whose graph has a May; later checks use Check alone. Costs that cannot be determined, such
// as the users of a machine whose API is down, are described in the cost itself.
type costChecker interface {
	Step
	checkWithCosts(ctx context.Context) (Diff, Act, []Cost, error)
}

// checkWithCosts is Check, with what Costs says of the difference.
func (r *Resource[S]) checkWithCosts(ctx context.Context) (Diff, Act, []Cost, error) {
	seen, diff, act, err := r.check(ctx)
	if err != nil || act == nil || r.Costs == nil {
		return diff, act, nil, err
	}
	return diff, act, r.Costs(ctx, seen, diff), nil
}

// checkWithCosts calls weigh if the step has it, and Check otherwise.
func checkWithCosts(ctx context.Context, s Step) (Diff, Act, []Cost, error) {
	if w, ok := s.(costChecker); ok {
		return w.checkWithCosts(ctx)
	}
	return check(ctx, s)
}
