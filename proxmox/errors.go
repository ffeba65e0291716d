package proxmox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
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

// class says what one may do about a failure.
type class int

const (
	// permanent failures come again when tried again.
	permanent class = iota
	// transient failures are worth another try, after looking at what is there.
	transient
	// unknown outcomes left the request in the dark: it may have been done, may
	// be under way still, or never have arrived. Look, then decide.
	unknown
)

// String names the class.
func (c class) String() string {
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

// class says what one may do about e.
func (e *Error) class() class {
	switch {
	case e.Status == 595 && strings.Contains(e.Message, "refused"):
		// The daemon behind pveproxy is down: nothing was done.
		return transient
	case e.Status == 0, e.Status == 595, e.Status == 596, e.Status == http.StatusBadGateway,
		e.Status == http.StatusServiceUnavailable, e.Status == http.StatusGatewayTimeout:
		return unknown
	}
	return classOf(e.Message)
}

// Permanent reports whether waiting is useless: the token lacks a privilege.
func (e *Error) Permanent() bool { return e.IsPermission() }

// Passing reports whether looking again later may give an answer.
func (e *Error) Passing() bool { return e.class() != permanent && !distrusted(e.Cause) }

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

// class says what one may do about e. A worker that was killed has left its work
// somewhere in the middle.
func (e *TaskError) class() class {
	if e.Exit == "unexpected status" || strings.HasPrefix(e.Exit, "unable to ") && strings.Contains(e.Exit, "last line") {
		return unknown
	}
	return classOf(e.Exit)
}

// IsPermission reports whether a privilege is missing.
func (e *TaskError) IsPermission() bool { _, _, ok := denied(e.Exit); return ok }

// Permanent reports whether waiting is useless: the token lacks a privilege.
func (e *TaskError) Permanent() bool { return e.IsPermission() }

// ConflictError is a VM that has the name of one of ours and is not ours, also where it
// carries our tag. It is somebody else's and is never touched.
type ConflictError struct {
	Name, Owner, Host string
	VMID              int
	Why               string // it is not ours: "does not carry the tag homelab-a100"
	Tagged            bool   // it carries our tag all the same: a copy perhaps, or an earlier version's
	Abandoned         bool   // an earlier version has left it half-made
}

func conflict(owner string, vm *VM) *ConflictError {
	return &ConflictError{Name: vm.Name, Owner: owner, VMID: vm.VMID, Host: vm.Host, Why: vm.unlike(owner), Tagged: vm.tagged(owner),
		Abandoned: vm.abandoned(owner)}
}

// Error returns the conflict and the ways out of it.
func (e *ConflictError) Error() string {
	if e.Abandoned {
		return fmt.Sprintf("VM %d on %s is called %s and %s: it is not changed\n  %s",
			e.VMID, e.Host, e.Name, e.Why, clearing(e.Host, e.VMID))
	}
	return fmt.Sprintf("VM %d on %s is called %s, but %s: the cluster does not own it, so it is not changed\n"+
		"  rename one of the two, or remove the other VM; to adopt it instead, write adopt: true for %s in the file",
		e.VMID, e.Host, e.Name, e.Why, e.Name)
}

// clearing says how a half-made VM of an earlier version goes away.
func clearing(host string, vmid int) string {
	return fmt.Sprintf("it holds data only if it was started since: look at its task history in the web "+
		"interface, or as root on %s: pvesh get /nodes/%s/tasks --vmid %d\n"+
		"  if it was not, destroy it, as root on %s: qm destroy %d --purge, and the next cluster:up recreates it", host, host, vmid, host, vmid)
}

// DuplicateError is more than one VM of ours with one name.
type DuplicateError struct {
	Name, Owner string
	VMIDs       []int
}

// Error returns the doubles.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("proxmox: VMs %v are all called %s and all marked as VMs of %s: they cannot be told apart\n"+
		"  look at what is on them, and remove the duplicates, as root on their host: qm stop VMID; qm destroy VMID --purge",
		e.VMIDs, e.Name, e.Owner)
}

// LockedError is a VM that is locked while nothing is at work on it: what held
// the lock died. A token may not unlock it.
type LockedError struct {
	Host, Lock string
	VMID       int
}

// Error returns the lock and how to get rid of it.
func (e *LockedError) Error() string {
	cure := fmt.Sprintf("qm unlock %d", e.VMID)
	if e.Lock == "clone" || e.Lock == "create" {
		cure += fmt.Sprintf(" && qm destroy %d --purge", e.VMID)
	}
	return fmt.Sprintf("proxmox: VM %d on %s is locked (%s) and no task is running on it\n  run on %s as root: %s",
		e.VMID, e.Host, e.Lock, e.Host, cure)
}

// errorClass returns the class of the first error in err's chain that has one; an
// error that is not Proxmox's is permanent.
func errorClass(err error) class {
	var classed interface {
		error
		class() class
	}
	if errors.As(err, &classed) {
		return classed.class()
	}
	return permanent
}

// From here on is what Proxmox says, and the only place that looks into it.

var (
	permissionText = regexp.MustCompile(`Permission check failed(?: \((/[^,()]*), ([A-Za-z.|, ]+?)(?: for [^()]*)?\))?`)
	poolGoneText   = regexp.MustCompile(`pool '[^']*' does not exist`)
	rootOnlyText   = regexp.MustCompile(`[Oo]nly root can (?:set|pass)|user != root@pam`)
	lockedText     = regexp.MustCompile(`VM is locked \(([a-z-]+)\)`)
	takenText      = regexp.MustCompile(`unable to create VM \d+(?:: config file already exists| - VM \d+ already exists)|VM \d+ already exists`)
	onText         = regexp.MustCompile(`VM \d+ (?:is )?already running`)
	offText        = regexp.MustCompile(`VM \d+ (?:is )?not running`)
	transientText  = regexp.MustCompile(`lock file .* - got timeout|got lock request timeout|got no worker upid|detected modified configuration|checksum mismatch \(file change by other user\?\)`)
	gpuBusyText    = regexp.MustCompile(`already in use by VMID '(\d+)'|reserved for use by VMID '?(\d+)'?`)
)

// classOf sorts a message or exit status. Transient is what goes away by itself:
// a lock held by somebody else, a worker that died before its work began, a file
// that was changed between read and write. A timeout alone is not: that of the
// kvm command comes again.
func classOf(text string) class {
	if transientText.MatchString(text) {
		return transient
	}
	return permanent
}

// saidSentinel reports whether text is how Proxmox says target.
func saidSentinel(text string, target error) bool {
	switch target {
	case ErrAgentNotRunning:
		return strings.Contains(text, "QEMU guest agent is not running")
	case fs.ErrNotExist: // of a file in a guest
		return strings.Contains(text, "No such file or directory")
	case ErrNotFound:
		return strings.Contains(text, "does not exist") && !strings.Contains(text, "pool '") ||
			strings.Contains(text, "unable to find configuration file for VM") ||
			strings.Contains(text, "no such task") || strings.Contains(text, "not defined")
	}
	return false
}

// saidProtected reports whether text says that a VM must not be destroyed.
func saidProtected(text string) bool { return strings.Contains(text, "protection mode enabled") }

// saidTaken reports whether text is a VMID that somebody else has.
func saidTaken(text string) bool { return takenText.MatchString(text) }

// saidLock returns the lock that text complains of, "" when none.
func saidLock(text string) string {
	if m := lockedText.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// saidOn reports whether text says that a VM that was to be started runs.
func saidOn(text string) bool { return onText.MatchString(text) }

// saidOff reports whether text says that a VM is off: "VM 100 is not running".
func saidOff(text string) bool { return offText.MatchString(text) }

// saidRuns reports whether text says that a VM that was to be destroyed runs.
func saidRuns(text string) bool { return strings.Contains(text, "is running - destroy failed") }

// saidNoPID reports whether the agent knows no such process: its result was read.
func saidNoPID(text string) bool {
	return strings.Contains(text, "Agent error: PID") && strings.Contains(text, "does not exist")
}

// saidNoProgram reports whether the agent could not find the program to run.
func saidNoProgram(text string) bool {
	return strings.Contains(text, "Failed to execute child process") && strings.Contains(text, "No such file")
}

// words returns what Proxmox said in err, "" when it said nothing.
func words(err error) string {
	var e *Error
	if errors.As(err, &e) {
		out := e.Message
		for _, v := range e.Errors {
			out += "\n" + v
		}
		return out
	}
	var t *TaskError
	if errors.As(err, &t) {
		return t.Exit
	}
	return ""
}

// denied reads "Permission check failed (/vms/100, VM.Audit|VM.Config.Disk)".
func denied(text string) (path string, privileges []string, ok bool) {
	m := permissionText.FindStringSubmatch(text)
	if m == nil {
		return "", nil, false
	}
	return m[1], strings.FieldsFunc(m[2], func(r rune) bool { return r == '|' || r == ',' || r == ' ' }), true
}
