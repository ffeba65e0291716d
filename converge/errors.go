package converge

import (
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/converge/drift"
)

// StepError is the failure of one step.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// NotConverged says what still differed when a step's time to settle was over.
type NotConverged struct {
	After time.Duration // how long it was given
	Diff  drift.Diff    // what remains; empty if the last look failed
	Err   error         // why the last look failed, if it did
}

func (e *NotConverged) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("not there after %s: %v", e.After, e.Err)
	}
	return fmt.Sprintf("not there after %s: %s", e.After, e.Diff)
}

// Unwrap returns the last look's error.
func (e *NotConverged) Unwrap() error { return e.Err }

// Permanent marks err as one that waiting does not mend, so that a step that is
// settling gives up at once. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error   { return p.error }
func (p *permanent) Permanent() bool { return true }

// isPermanent also finds errors of packages that do not know this one but have
// the method.
func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
