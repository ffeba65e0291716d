package converge

import (
	"fmt"
	"strings"
	"time"
)

// StepError is the failure of one step.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// NotConvergedError says what still differed when a step's time to settle was over.
type NotConvergedError struct {
	After       time.Duration // how long it was given
	Diff        Diff          // what remains; empty if the last check failed
	Err         error         // why the last check failed, if it did
	Hint        string        // what to do about it; may be empty
	TimeoutHint string        // how it gets more time; may be empty
}

func (e *NotConvergedError) Error() string {
	text := fmt.Sprintf("not there after %s: %s", shortDuration(e.After), e.reason())
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	if e.TimeoutHint != "" {
		text += "\n  " + e.TimeoutHint
	}
	return text
}

func inParentheses(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// shortDuration prints 10m0s as 10m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// Transient is false: the step has timed out.
func (e *NotConvergedError) Transient() bool { return false }

// Unwrap returns the last check's error.
func (e *NotConvergedError) Unwrap() error { return e.Err }
