package api

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Errors to test for with [errors.Is].
var (
	// ErrNotFound says that the VM, volume or mapping does not exist. (Proxmox reports that with
	// status 500.)
	ErrNotFound = errors.New("not found")
	// ErrAgentNotRunning says that the guest agent does not answer (yet).
	ErrAgentNotRunning = errors.New("the guest agent is not running")
	// ErrUnauthorized says that Proxmox does not accept the token.
	ErrUnauthorized = errors.New("the API token is not accepted")
)

// Class says how a caller may handle a failure.
type Class int

const (
	// Permanent failures recur on a retry.
	Permanent Class = iota
	// Transient failures are worth a retry, after a check of the current state.
	Transient
	// Unknown outcomes say nothing about the request: it may have been done, may still be running,
	// or may never have arrived. Check the state before a retry.
	Unknown
)

// String names the class.
func (c Class) String() string {
	return [...]string{"permanent", "transient", "unknown outcome"}[c]
}

// Error is an unsuccessful answer of Proxmox's API, or no answer at all (Status 0).
type Error struct {
	Status  int               // HTTP status; 595 and 596 are Proxmox's own: a daemon or node that could not be reached, or did not answer in 30 s
	Method  string            // of the request
	Path    string            // of the request, below /api2/json
	Message string            // Proxmox's message
	Errors  map[string]string // errors by parameter, for status 400
	Token   string            // the token's id, never its secret
	Cause   error             // the network error, for Status 0
	Cure    string            // how to grant a missing privilege
}

// Error returns what failed, in Proxmox's words, and what to do about it.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "proxmox: %s %s: ", e.Method, e.Path)
	b.WriteString(e.text())
	if e.Status == 0 && e.Method != http.MethodGet {
		b.WriteString(": whether it was done is not known")
	}
	if h := e.hint(); h != "" {
		b.WriteString("\n  ")
		b.WriteString(h)
	}
	return b.String()
}

// text returns Proxmox's message.
func (e *Error) text() string {
	message := strings.TrimSpace(e.Message)
	if message == "" {
		message = http.StatusText(e.Status)
	}
	if e.Status != 0 && !strings.HasPrefix(message, "Permission check failed") {
		message = fmt.Sprintf("%s (status %d)", message, e.Status)
	}
	for _, k := range slices.Sorted(maps.Keys(e.Errors)) {
		message += fmt.Sprintf("; %s: %s", k, strings.Join(strings.Fields(e.Errors[k]), " "))
	}
	return message
}

// Unwrap returns the network error, if there is one.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes the package's sentinel errors work with [errors.Is].
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrNotFound, ErrAgentNotRunning, fs.ErrNotExist:
		return isMessageOf(e.Message, target)
	}
	return false
}

// IsPermission reports whether a privilege is missing.
func (e *Error) IsPermission() bool { _, _, ok := e.Permission(); return ok }

// Permission returns the object path and the privileges of which the token lacks one (or all), as
// far as Proxmox reports them.
func (e *Error) Permission() (path string, privileges []string, ok bool) {
	if path, privileges, ok = denied(e.Message); ok {
		return path, privileges, true
	}
	return "", nil, e.Status == http.StatusForbidden
}

// Class says how a caller may handle e.
func (e *Error) class() Class {
	switch {
	case e.Status == 595 && strings.Contains(e.Message, "refused"):
		// The daemon behind pveproxy is down, so nothing was done.
		return Transient
	case e.Status == 0, e.Status == 595, e.Status == 596, e.Status == http.StatusBadGateway,
		e.Status == http.StatusServiceUnavailable, e.Status == http.StatusGatewayTimeout:
		return Unknown
	}
	return textClass(e.Message)
}

// Permanent reports whether waiting does not help: the token lacks a privilege.
func (e *Error) Permanent() bool { return e.IsPermission() }

// Transient reports whether a later check may get an answer.
func (e *Error) Transient() bool { return e.class() != Permanent && !distrusted(e.Cause) }

// TaskError is a task that failed.
type TaskError struct {
	UPID  UPID
	Exit  string   // the task's exit status
	Log   []string // the last lines of its log
	Token string   // the token's id, never its secret
	Cure  string   // how to grant a missing privilege
}

// Error returns what failed, in Proxmox's words, and what to do about it.
func (e *TaskError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "proxmox: %s failed: %s", e.UPID.description(), e.Exit)
	for _, line := range e.Log {
		line = strings.TrimSpace(strings.TrimPrefix(line, "TASK ERROR: "))
		if line != "" && line != "no content" && !strings.Contains(e.Exit, line) {
			b.WriteString("\n  | ")
			b.WriteString(line)
		}
	}
	if h := e.hint(); h != "" {
		b.WriteString("\n  ")
		b.WriteString(h)
	}
	return b.String()
}

// Is makes the package's sentinel errors work with [errors.Is].
func (e *TaskError) Is(target error) bool { return isMessageOf(e.Exit, target) }

// Class says how a caller may handle e. A killed worker leaves its work half done.
func (e *TaskError) class() Class {
	if e.Exit == "unexpected status" || strings.HasPrefix(e.Exit, "unable to ") && strings.Contains(e.Exit, "last line") {
		return Unknown
	}
	return textClass(e.Exit)
}

// IsPermission reports whether a privilege is missing.
func (e *TaskError) IsPermission() bool { _, _, ok := e.Permission(); return ok }

// Permission is as of [Error.Permission].
func (e *TaskError) Permission() (path string, privileges []string, ok bool) { return denied(e.Exit) }

// Permanent reports whether waiting does not help: the token lacks a privilege.
func (e *TaskError) Permanent() bool { return e.IsPermission() }

// ClassOf returns the class of the first error in err's chain that has one. An error that does not
// come from Proxmox is permanent.
func ClassOf(err error) Class {
	var classed interface {
		error
		class() Class
	}
	if errors.As(err, &classed) {
		return classed.class()
	}
	return Permanent
}

// The rest of this file parses Proxmox's messages. No other file does.

// Forbidden reports whether Proxmox refused a request because a privilege is missing.
func Forbidden(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusForbidden
}
