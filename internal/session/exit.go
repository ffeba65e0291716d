package session

import "fmt"

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
}

// Error returns the cause's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ExitStatus returns the exit code to Mage.
func (e *Error) ExitStatus() int { return e.Code }

func failed(code int, err error) error { return &Error{Code: code, Err: err} }

func failedf(code int, format string, args ...any) error {
	return failed(code, fmt.Errorf(format, args...))
}
