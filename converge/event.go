package converge

import (
	"time"
)

// Kind is the kind of an Event.
type Kind string

// The kinds, in the order in which a step goes through them. Every step ends with
// exactly one of Unchanged, Changed, FailedStep, Skipped and Cancelled; in a
// [Graph.PlanWithEvents] with one of Unchanged, Differs, FailedStep and Skipped.
const (
	Checking   Kind = "checking"  // the first check starts
	Acting     Kind = "acting"    // a difference was found (Diff) and is being closed
	Progress   Kind = "progress"  // nested code reports progress (Message)
	Waiting    Kind = "waiting"   // acted; checking again still finds a difference (Message)
	Differs    Kind = "differs"   // of a [Graph.PlanWithEvents]: something differs from the wanted state (Diff)
	Unchanged  Kind = "unchanged" // nothing to do
	Changed    Kind = "changed"   // changed, and a check has confirmed it
	FailedStep Kind = "failed"    // Err says why
	Skipped    Kind = "skipped"   // something it needs failed (Message)
	Cancelled  Kind = "cancelled" // the context ended first, or the run was refused
)

// Final reports whether k ends a step.
func (k Kind) Final() bool {
	switch k {
	case Unchanged, Differs, Changed, FailedStep, Skipped, Cancelled:
		return true
	}
	return false
}

// Event is one thing that happened in a run.
type Event struct {
	Time    time.Time     `json:"time"`
	Step    string        `json:"step"`
	Kind    Kind          `json:"kind"`
	Diff    Diff          `json:"diff,omitempty"`
	Message string        `json:"message,omitempty"`
	Err     error         `json:"-"`
	Elapsed time.Duration `json:"-"` // since the step's first check started
}
