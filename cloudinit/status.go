package cloudinit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State is how far cloud-init has come in this boot.
type State string

// The states that cloud-init knows.
const (
	NotStarted State = "not started"
	Running    State = "running"
	Done       State = "done"
	Failed     State = "error" // done, or still running, but something went wrong for good
	Disabled   State = "disabled"
)

// Status is what `cloud-init status --format json` prints.
type Status struct {
	State       State               `json:"status"`
	Extended    string              `json:"extended_status"` // e.g. "degraded done", "error - running"
	Detail      string              `json:"detail"`
	Datasource  string              `json:"datasource"`
	BootCode    string              `json:"boot_status_code"`
	LastUpdate  string              `json:"last_update"`
	Errors      []string            `json:"errors"`
	Recoverable map[string][]string `json:"recoverable_errors"` // by level: WARNING, DEPRECATED, ERROR, CRITICAL
}

// ErrNotDone means that cloud-init is still running.
var ErrNotDone = errors.New("cloud-init is not done yet")

// FailedError means that cloud-init failed; the machine is not as described.
type FailedError struct {
	Errors []string // cloud-init's own messages
}

// Error implements error.
func (e *FailedError) Error() string {
	words := cmp.Or(strings.Join(e.Errors, "; "), "no reason given")
	return "cloud-init failed: " + words + ": see /var/log/cloud-init-output.log and /var/log/cloud-init.log on the machine"
}

// ParseStatus reads the output of `cloud-init status --format json`. With --wait,
// some versions print dots first, which are skipped.
//
// Ignore the program's exit status, 1 for a failure and 2 for success with recoverable errors,
// because the output says more: parse it even if the runner returns an error for the status.
func ParseStatus(out []byte) (Status, error) {
	start := bytes.IndexByte(out, '{')
	if start < 0 {
		return Status{}, fmt.Errorf("cloud-init status: no JSON in %q", shorten(out))
	}
	var s Status
	if err := json.Unmarshal(out[start:], &s); err != nil {
		return Status{}, fmt.Errorf("cloud-init status: %w", err)
	}
	switch s.State {
	case NotStarted, Running, Done, Failed, Disabled:
		return s, nil
	case "degraded done": // what some versions say in status itself
		s.State, s.Extended = Done, "degraded done"
		return s, nil
	default:
		return Status{}, fmt.Errorf("cloud-init status: unknown status %q", s.State)
	}
}

// Err returns nil if cloud-init is done, even with warnings; [ErrNotDone] while it is running;
// otherwise what is wrong.
func (s Status) Err() error {
	switch s.State {
	case Done:
		return nil
	case Failed:
		return &FailedError{Errors: s.Errors}
	case Disabled:
		return errors.New("cloud-init is disabled on this machine: remove /etc/cloud/cloud-init.disabled, or use an image in which it is enabled")
	default:
		return ErrNotDone
	}
}

// Warnings are the errors that cloud-init recovered from, each with its level, in a stable
// order. Deprecations are left out, because tests check our documents against the schema.
func (s Status) Warnings() []string {
	var all []string
	for _, level := range slices.Sorted(maps.Keys(s.Recoverable)) {
		if level == "DEPRECATED" {
			continue
		}
		for _, text := range s.Recoverable[level] {
			all = append(all, level+": "+text)
		}
	}
	return all
}

func shorten(b []byte) string {
	const most = 80
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
