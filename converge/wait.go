package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// waitPoll is the default time between two checks of a WaitRule.
const waitPoll = 2 * time.Second

// WaitRule says what to wait for, and how.
type WaitRule struct {
	// What names what is waited for; messages have it before the result of the last check.
	What string
	// Limit is how long the wait may take, in running time; 0: as long as the context.
	Limit time.Duration
	// TimeoutText is the text of the error after Limit: "the API did not answer"; "" repeats What.
	TimeoutText string
	// Hint says what to do after Limit, in lines of its own; may be empty.
	Hint string
	// Strict ends the wait at any error that is not marked as transient.
	Strict bool
	// Poll is the time between two checks; 0 is waitPoll.
	Poll time.Duration
	// Last is the result of an earlier check; if set, the first check is after Poll.
	Last string
	// OnChange receives the result of a check if it changed; nil reports it as progress.
	OnChange func(seen string)
}

// Condition returns what is still missing, "" if nothing is. An error that waiting does not fix
// ([IsPermanent]) ends the wait; any other error counts as missing, but see Strict.
type Condition func(ctx context.Context) (missing string, err error)

// WaitError says that a wait ended without success.
type WaitError struct {
	What  string // what was waited for; "" if Over says that
	Last  string // result of the last check that had one
	Err   error  // error of that check, if any
	Cause error  // why the wait ended: the cause of its context
	Hint  string // what to do
}

// Error returns what was waited for, the result of the last check, and why the wait ended.
func (e *WaitError) Error() string {
	words := e.Last
	if e.Err != nil {
		words = e.Err.Error()
	}
	if e.What != "" {
		return fmt.Sprintf("%s: %s: %s", e.What, words, e.Cause)
	}
	text := fmt.Sprintf("%s: %s", e.Cause, words)
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}

// Unwrap returns the reason for the end, and the last check's error.
func (e *WaitError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// Transient is false: the time is over.
func (e *WaitError) Transient() bool { return false }

// Until checks until nothing is missing. If the time is over or ctx ends, the error is an
// [*WaitError]; a permanent error is returned unchanged.
func Until(ctx context.Context, r WaitRule, look Condition) error {
	var late error
	if r.Limit > 0 {
		late = fmt.Errorf("%s within %s", cmp.Or(r.TimeoutText, r.What+": not"), r.Limit)
		var cancel context.CancelFunc
		ctx, cancel = WithRunningTimeout(ctx, r.Limit, late)
		defer cancel()
	}
	if r.Poll <= 0 {
		r.Poll = waitPoll
	}
	if r.OnChange == nil {
		r.OnChange = func(seen string) { Progressf(ctx, "%s", strings.TrimPrefix(r.What+": "+seen, ": ")) }
	}
	last, told := &WaitError{What: r.What, Last: r.Last}, ""
	for again := r.Last == ""; ; again = true {
		if again {
			missing, err := look(ctx)
			switch {
			case err == nil && missing == "", IsPermanent(err), r.Strict && err != nil && !IsTransient(err) && ctx.Err() == nil:
				return err
			case last.Last != "" && cutShort(ctx, err):
			case err != nil:
				last.Last, last.Err = firstLine(err), err
			default:
				last.Last, last.Err = missing, nil
			}
		}
		if last.Last != told {
			told = last.Last
			r.OnChange(told)
		}
		if Pause(ctx, r.Poll) != nil {
			if last.Cause = context.Cause(ctx); late != nil && errors.Is(last.Cause, late) {
				last.What, last.Hint = "", r.Hint
			}
			return last
		}
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Pause waits between two checks. It returns why ctx has ended, if it has.
func Pause(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
