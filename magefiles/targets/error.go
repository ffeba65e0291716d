package targets

import (
	"errors"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Error is why a command did not end with exit code 0. Nothing was printed about it yet.
type Error struct {
	Code   int  // the exit code
	Answer bool // no failure, but what was asked for, such as "there is something to change"
	text   string
	cause  error
}

// Error returns what happened, without secrets and control characters.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, whose text may have secrets.
func (e *Error) Unwrap() error { return e.cause }

// ExitStatus returns the exit code to Mage.
func (e *Error) ExitStatus() int { return e.Code }

// commandError makes the error of a command. The console knows the secrets that its text must not show.
func commandError(c *console.Console, err error) error {
	if err == nil {
		return nil
	}
	out := &Error{Code: 1, text: c.Plain(err.Error()), cause: err}
	var ours *session.Error
	var coded interface{ ExitStatus() int }
	switch {
	case errors.As(err, &ours):
		out.Code, out.Answer, out.text = ours.Code, true, c.Plain(ours.Error())
	case errors.As(err, &coded):
		out.Code = coded.ExitStatus()
	}
	return out
}

// printError prints an error on standard error, and returns the exit code.
func printError(err error) int {
	if err == nil {
		return 0
	}
	text, code := "Error: "+err.Error(), 1
	if e := new(Error); errors.As(err, &e) {
		code = e.Code
		if e.Answer {
			text = e.Error()
		}
	}
	console.New(false).Fail(text)
	return code
}

// Fail is an error of a command with exit code 1.
func Fail(err error) error { return commandError(console.New(false), err) }
