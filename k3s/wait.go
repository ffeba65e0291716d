package k3s

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/remote"
)

// interval is how often Wait looks: often enough for a person, and each look is
// one small command on the machine.
const interval = 2 * time.Second

// Wait waits until K3s runs on the machine, which for an agent means that it has
// joined. It says meanwhile what K3s waits for, and does not wait for what will
// not get better by itself: that is a [*StartError]. The deadline is the context's.
func Wait(ctx context.Context, r remote.Runner, role Role) (State, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last := "k3s has said nothing yet"
	for {
		s, err := Observe(ctx, r)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			// The machine may be restarting; how long that may take is the
			// caller's deadline.
			last = err.Error()
		case s.Role != role:
			return s, fmt.Errorf("%w: waiting for a k3s %s, found %q", ErrRole, role, s.Role)
		case s.Running():
			return s, nil
		default:
			if last, err = waitsFor(s); err != nil {
				return s, err
			}
		}
		progress.Say(ctx, "waiting for k3s %s: %s", role, last)
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("k3s %s is not running yet: %s: %w", role, last, ctx.Err())
		case <-tick.C:
		}
	}
}

// waitsFor says what keeps K3s from running, or returns a [*StartError] where
// waiting is of no use.
func waitsFor(s State) (string, error) {
	d, ok := s.Diagnosis()
	switch {
	case ok && d.Fatal:
		return "", &StartError{Role: s.Role, Diagnosis: d}
	case ok:
		return d.String(), nil
	}
	for _, line := range slices.Backward(s.Journal) {
		if !tellsOfOthers(line) {
			return line, nil
		}
	}
	return "systemd says " + s.Active, nil
}
