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
	// Late is the text of the error after Limit: "the API did not answer"; "" repeats What.
	Late string
	// Hint says what to do after Limit, in lines of its own; may be empty.
	Hint string
	// Strict ends the wait at any error that is not marked as passing.
	Strict bool
	// Poll is the time between two checks; 0 is waitPoll.
	Poll time.Duration
	// Seen is the result of an earlier check; if set, the first check is after Poll.
	Seen string
	// Say receives the result of a check if it changed; nil reports it as progress.
	Say func(seen string)
}

// Condition returns what is still missing, "" if nothing is. An error that waiting does not fix
// ([IsPermanent]) ends the wait; any other error counts as missing, but see Strict.
type Condition func(ctx context.Context) (missing string, err error)

// WaitError says that a wait ended without success.
type WaitError struct {
	What string // what was waited for; "" if Over says that
	Seen string // result of the last check that had one
	Err  error  // error of that check, if any
	Over error  // why the wait ended: the cause of its context
	Hint string // what to do
}

// Error returns what was waited for, the result of the last check, and why the wait ended.
func (e *WaitError) Error() string {
	words := e.Seen
	if e.Err != nil {
		words = e.Err.Error()
	}
	if e.What != "" {
		return fmt.Sprintf("%s: %s: %s", e.What, words, e.Over)
	}
	text := fmt.Sprintf("%s: %s", e.Over, words)
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}

// Unwrap returns the reason for the end, and the last check's error.
func (e *WaitError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Over}
	}
	return []error{e.Over, e.Err}
}

// Passing is false: the time is over.
func (e *WaitError) Passing() bool { return false }

// Until checks until nothing is missing. If the time is over or ctx ends, the error is an
// [*WaitError]; a permanent error is returned unchanged.
func Until(ctx context.Context, r WaitRule, look Condition) error {
	var late error
	if r.Limit > 0 {
		late = fmt.Errorf("%s within %s", cmp.Or(r.Late, r.What+": not"), r.Limit)
		var cancel context.CancelFunc
		ctx, cancel = Within(ctx, r.Limit, late)
		defer cancel()
	}
	if r.Poll <= 0 {
		r.Poll = waitPoll
	}
	if r.Say == nil {
		r.Say = func(seen string) { Say(ctx, "%s", strings.TrimPrefix(r.What+": "+seen, ": ")) }
	}
	last, told := &WaitError{What: r.What, Seen: r.Seen}, ""
	for again := r.Seen == ""; ; again = true {
		if again {
			missing, err := look(ctx)
			switch {
			case err == nil && missing == "", IsPermanent(err), r.Strict && err != nil && !IsPassing(err) && ctx.Err() == nil:
				return err
			case last.Seen != "" && cutShort(ctx, err):
			case err != nil:
				last.Seen, last.Err = firstLine(err), err
			default:
				last.Seen, last.Err = missing, nil
			}
		}
		if last.Seen != told {
			told = last.Seen
			r.Say(told)
		}
		if Pause(ctx, r.Poll) != nil {
			if last.Over = context.Cause(ctx); late != nil && errors.Is(last.Over, late) {
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
