package session

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes. Anything else that goes wrong is 1.
const (
	pending = 2 // plan: there is something to change; status: something is not up to date
	invalid = 3 // the file or the flags are wrong; nothing was tried
	refused = 4 // the answer to a question was no
)

// Error is an error with the exit code of its command.
type Error struct {
	Code int
	Err  error
	text string // empty: the cause's
}

// Error returns the text for a person.
func (e *Error) Error() string {
	if e.text != "" {
		return e.text
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ExitStatus returns the exit code to Mage.
func (e *Error) ExitStatus() int { return e.Code }

func exitError(code int, err error) error { return &Error{Code: code, Err: err} }

func exitErrorf(code int, format string, args ...any) error {
	return exitError(code, fmt.Errorf(format, args...))
}

// InterruptionError says of a command that ended with nothing but its context why that ended.
func InterruptionError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.As(err, new(*Error)) {
		return err
	}
	code, text := 130, "interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code, text = 1, "timed out (-timeout)"
	}
	return &Error{Code: code, Err: err, text: text + "; run it again and it continues from here"}
}
