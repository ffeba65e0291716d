package pvesim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// apiError is a refusal with the status line that Proxmox gives.
type apiError struct {
	status  int
	text    string
	params  map[string]string // parameter -> what is wrong with it
	bare    bool              // no body
	plain   bool              // a body of the text alone
	unended bool              // an exception's text, without the line feed of Perl's die
}

// Error is the text, with the status where Perl's exceptions carry it: that is how
// a refusal reads in a task (PVE/Exception.pm, stringify).
func (e *apiError) Error() string {
	if e.status == http.StatusForbidden {
		return "403 " + e.text
	}
	if e.params != nil {
		text := fmt.Sprintf("%d %s\n", e.status, e.text)
		for _, k := range slices.Sorted(maps.Keys(e.params)) {
			text += k + ": " + e.params[k] + "\n"
		}
		return strings.TrimSuffix(text, "\n")
	}
	return e.text
}

func (e *apiError) with(param, text string) *apiError {
	if e.params == nil {
		e.params = map[string]string{}
	}
	e.params[param] = text
	return e
}

// unread refuses a request before anything has looked at what it asks for
// (PVE/APIServer/AnyEvent.pm, error).
func unread(status int, text string) *apiError {
	return &apiError{status: status, text: text, plain: true}
}

func fail(status int, text string) *apiError { return &apiError{status: status, text: text} }

// die is Perl's: an error that ends as 500, or as the exit status of a task.
func die(format string, args ...any) error {
	return fail(http.StatusInternalServerError, fmt.Sprintf(format, args...))
}

func badParam(name, text string) error {
	return fail(http.StatusBadRequest, "Parameter verification failed.").with(name, text)
}

// userConfig words an error in user.cfg's own lock as Proxmox does.
func userConfig(what string, err error) error {
	if err == nil {
		return nil
	}
	return fail(http.StatusInternalServerError, what+": "+err.Error())
}

// errDropped ends a connection without an answer.
var errDropped = errors.New("pvesim: connection dropped")
