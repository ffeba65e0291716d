package answer

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Error is a refusal with the status line that Proxmox gives.
type Error struct {
	Status  int
	Text    string
	Params  map[string]string // parameter -> what is wrong with it
	Bare    bool              // no body
	Plain   bool              // a body of the text alone
	Unended bool              // an exception's text, without the line feed of Perl's die
}

// Error is the text, with the status where Perl's exceptions carry it: that is how
// a refusal reads in a task (PVE/Exception.pm, stringify).
func (e *Error) Error() string {
	if e.Status == http.StatusForbidden {
		return "403 " + e.Text
	}
	if e.Params != nil {
		text := fmt.Sprintf("%d %s\n", e.Status, e.Text)
		for _, k := range slices.Sorted(maps.Keys(e.Params)) {
			text += k + ": " + e.Params[k] + "\n"
		}
		return strings.TrimSuffix(text, "\n")
	}
	return e.Text
}

// WithParam adds what is wrong with a parameter.
func (e *Error) WithParam(param, text string) *Error {
	if e.Params == nil {
		e.Params = map[string]string{}
	}
	e.Params[param] = text
	return e
}

// Unread refuses a request before anything has looked at what it asks for
// (PVE/APIServer/AnyEvent.pm, error).
func Unread(status int, text string) *Error {
	return &Error{Status: status, Text: text, Plain: true}
}

// Fail is an error of a status.
func Fail(status int, text string) *Error { return &Error{Status: status, Text: text} }

// Die is Perl's: an error that ends as 500, or as the exit status of a task.
func Die(format string, args ...any) error {
	return Fail(http.StatusInternalServerError, fmt.Sprintf(format, args...))
}

// BadParam refuses a parameter.
func BadParam(name, text string) error {
	return Fail(http.StatusBadRequest, "Parameter verification failed.").WithParam(name, text)
}

// UserConfig words an error in user.cfg's own lock as Proxmox does.
func UserConfig(what string, err error) error {
	if err == nil {
		return nil
	}
	return Fail(http.StatusInternalServerError, what+": "+err.Error())
}

// ErrDropped ends a connection without an answer.
var ErrDropped = errors.New("pvesim: connection dropped")
