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

// Errors that callers may ask for with [errors.Is].
var (
	// ErrNotFound says that the VM, volume or mapping is not there. (Proxmox says so with status 500.)
	ErrNotFound = errors.New("not found")
	// ErrAgentNotRunning says that the guest agent does not answer (yet).
	ErrAgentNotRunning = errors.New("the guest agent is not running")
	// ErrUnauthorized says that the token is not accepted.
	ErrUnauthorized = errors.New("the API token is not accepted")
)

// Class says what one may do about a failure.
type Class int

const (
	// Permanent failures come again when tried again.
	Permanent Class = iota
	// Transient failures are worth another try, after looking at what is there.
	Transient
	// Unknown outcomes left the request in the dark: it may have been done, may
	// be under way still, or never have arrived. Look, then decide.
	Unknown
)

// String names the class.
func (c Class) String() string {
	return [...]string{"permanent", "transient", "unknown outcome"}[c]
}

// Error is an answer of Proxmox's API that is not a success, or no answer at all
// (Status 0).
type Error struct {
	Status  int               // HTTP status; 595 and 596 are Proxmox's own: a daemon or node that could not be reached, or did not answer in 30 s
	Method  string            // of the request
	Path    string            // of the request, below /api2/json
	Message string            // Proxmox's words
	Errors  map[string]string // what is wrong with each parameter, for status 400
	Token   string            // the token's id, never its secret
	Cause   error             // what the network said, for Status 0
	Cure    string            // how a missing privilege is granted
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

// text is what Proxmox said.
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

// Unwrap returns the network's error, if that was it.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes the package's sentinel errors work with [errors.Is].
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return e.Status == http.StatusUnauthorized
	case ErrNotFound, ErrAgentNotRunning, fs.ErrNotExist:
		return saidSentinel(e.Message, target)
	}
	return false
}

// IsPermission reports whether a privilege is missing.
func (e *Error) IsPermission() bool { _, _, ok := e.Permission(); return ok }

// Permission returns the object path and the privileges of which the token lacks
// one (or all), as far as Proxmox names them.
func (e *Error) Permission() (path string, privileges []string, ok bool) {
	if path, privileges, ok = denied(e.Message); ok {
		return path, privileges, true
	}
	return "", nil, e.Status == http.StatusForbidden
}

// Class says what one may do about e.
func (e *Error) class() Class {
	switch {
	case e.Status == 595 && strings.Contains(e.Message, "refused"):
		// The daemon behind pveproxy is down: nothing was done.
		return Transient
	case e.Status == 0, e.Status == 595, e.Status == 596, e.Status == http.StatusBadGateway,
		e.Status == http.StatusServiceUnavailable, e.Status == http.StatusGatewayTimeout:
		return Unknown
	}
	return textClass(e.Message)
}

// Permanent reports whether waiting is useless: the token lacks a privilege.
func (e *Error) Permanent() bool { return e.IsPermission() }

// Passing reports whether looking again later may give an answer.
func (e *Error) Passing() bool { return e.class() != Permanent && !distrusted(e.Cause) }

// TaskError is a task that ended badly.
type TaskError struct {
	UPID  UPID
	Exit  string   // the task's exit status
	Log   []string // the last lines of its log
	Token string   // the token's id, never its secret
	Cure  string   // how a missing privilege is granted
}

// Error returns what failed, in Proxmox's words, and what to do about it.
func (e *TaskError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "proxmox: %s failed: %s", e.UPID.what(), e.Exit)
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
func (e *TaskError) Is(target error) bool { return saidSentinel(e.Exit, target) }

// Class says what one may do about e. A worker that was killed has left its work
// somewhere in the middle.
func (e *TaskError) class() Class {
	if e.Exit == "unexpected status" || strings.HasPrefix(e.Exit, "unable to ") && strings.Contains(e.Exit, "last line") {
		return Unknown
	}
	return textClass(e.Exit)
}

// IsPermission reports whether a privilege is missing.
func (e *TaskError) IsPermission() bool { _, _, ok := denied(e.Exit); return ok }

// Permanent reports whether waiting is useless: the token lacks a privilege.
func (e *TaskError) Permanent() bool { return e.IsPermission() }

// ClassOf returns the class of the first error in err's chain that has one; an
// error that is not Proxmox's is permanent.
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

// From here on is what Proxmox says, and the only place that looks into it.

// Forbidden reports whether Proxmox refused an answer because a privilege is missing.
func Forbidden(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusForbidden
}
