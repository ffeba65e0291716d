package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
)

// DefaultPoll is the time between two looks of a Rule that has none of its own.
const DefaultPoll = 2 * time.Second

// Rule says what is waited for, and how.
type Rule struct {
	// What is waited for, in words: it stands before what the last look found.
	What string
	// Limit is how long that may take, in running time; 0: as long as the context.
	Limit time.Duration
	// Late is what did not happen within Limit, for the error then: "the API did not
	// answer"; "" repeats What.
	Late string
	// Hint says what to do when Limit is over, in lines of its own; may be empty.
	Hint string
	// Strict ends the wait at an error that does not say of itself that it passes.
	Strict bool
	// Poll is the time between two looks; 0 is DefaultPoll.
	Poll time.Duration
	// Seen is what a look from before has found; the first look is then after Poll.
	Seen string
	// Say is told what a look found, when that has changed; nil reports it as progress.
	Say func(seen string)
}

// Look says what is still missing, "" when nothing is. An error that waiting does not
// fix ([IsPermanent]) ends the wait; any other is what is missing now, but see Strict.
type Look func(ctx context.Context) (missing string, err error)

// Error is a wait that has ended without what was waited for.
type Error struct {
	What string // is waited for; "" where Over says that
	Seen string // by the last look that said something
	Err  error  // of that look, if it was one
	Over error  // why the wait has ended: the cause of its context
	Hint string // what to do
}

// Error returns what was waited for, what the last look found, and why the wait ended.
func (e *Error) Error() string {
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

// Unwrap returns the reason for the end, and the last look's error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Over}
	}
	return []error{e.Over, e.Err}
}

// Passing is false: the time for that is over.
func (e *Error) Passing() bool { return false }

// Until looks until nothing is missing. Where that does not come in time, or ctx ends,
// the error is an [*Error]; what does not pass is returned as it is.
func Until(ctx context.Context, r Rule, look Look) error {
	var late error
	if r.Limit > 0 {
		late = fmt.Errorf("%s within %s", cmp.Or(r.Late, r.What+": not"), r.Limit)
		var cancel context.CancelFunc
		ctx, cancel = Within(ctx, r.Limit, late)
		defer cancel()
	}
	if r.Poll <= 0 {
		r.Poll = DefaultPoll
	}
	if r.Say == nil {
		r.Say = func(seen string) { progress.Say(ctx, "%s", strings.TrimPrefix(r.What+": "+seen, ": ")) }
	}
	last, told := &Error{What: r.What, Seen: r.Seen}, ""
	for again := r.Seen == ""; ; again = true {
		if again {
			missing, err := look(ctx)
			switch {
			case err == nil && missing == "", IsPermanent(err), r.Strict && err != nil && !IsPassing(err) && ctx.Err() == nil:
				return err
			case last.Seen != "" && CutShort(ctx, err):
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

// Pause waits between two looks. It returns why ctx has ended, if it has.
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
