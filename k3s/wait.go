package k3s

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// interval is how often Wait checks: often enough for a person, and each check is one small
// command on the machine.
const interval = 2 * time.Second

// Wait waits until K3s runs on the machine, which for an agent means that it has joined.
// Meanwhile it reports what K3s waits for. If K3s will not recover by itself, it returns a
// [*StartError] at once. The deadline is the context's.
func Wait(ctx context.Context, r remote.Runner, role Role) (State, error) {
	var s State
	if role != RoleServer && role != RoleAgent {
		return s, fmt.Errorf("k3s: no machine runs as %q: wait for %s or %s", role, RoleServer, RoleAgent)
	}
	rule := converge.WaitRule{
		What: fmt.Sprintf("k3s %s is not running yet", role), Poll: interval,
		OnChange: func(seen string) { converge.Progressf(ctx, "waiting for k3s %s: %s", role, seen) },
	}
	err := converge.Until(ctx, rule, func(ctx context.Context) (missing string, err error) {
		// A machine that cannot be observed may be restarting; the caller's deadline limits
		// how long that may take.
		now, err := Observe(ctx, r)
		if err != nil {
			return "", err
		}
		if s = now; s.Running() && s.Role == role {
			return "", nil
		}
		if s.Role != role {
			return "", converge.Permanent(fmt.Errorf("%w: waiting for a k3s %s, found %q", ErrRole, role, s.Role))
		}
		missing, err = waitReason(s)
		return missing, converge.Permanent(err)
	})
	return s, err
}

// waitReason says what keeps K3s from running, or returns a [*StartError] if waiting does not
// help.
func waitReason(s State) (string, error) {
	if d, _ := s.Diagnosis(); d.Fatal {
		return "", &StartError{Role: s.Role, Diagnosis: d}
	}
	if reason := s.Reason(); reason != "" {
		return reason, nil
	}
	for _, line := range slices.Backward(s.Journal) {
		if !isForeign(line) {
			return line, nil
		}
	}
	return "systemd says " + s.Active, nil
}
