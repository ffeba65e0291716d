package members

import (
	"context"
	"errors"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// Member looks at a machine. The error is one of [IsForeign] if what it has belongs to another cluster.
func (ks *Kubernetes) Member(ctx context.Context, n spec.Node) (distribution.Member, error) {
	have, err := ks.Distribution.Observe(ctx, n)
	if err == nil {
		err = ks.owns(ctx, n, have)
	}
	if err != nil {
		return nil, err
	}
	return have, nil
}

// Answer is Member for a machine that may be starting: until it answers, nobody knows what it is.
func Answer(ctx context.Context, ks *Kubernetes, n spec.Node, limit time.Duration) (distribution.Member, error) {
	look := func(ctx context.Context) (distribution.Member, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return ks.Member(ctx, n)
	}
	have, err := look(ctx)
	if err != nil || !have.State().Away {
		return have, err
	}
	rule := converge.WaitRule{What: "waiting for " + n.Name, Limit: limit, TimeoutText: n.Name + " does not answer"}
	err = run.Until(ctx, ks.Spec, rule, func(ctx context.Context) (_ string, err error) {
		if have, err = look(ctx); err == nil && have.State().Away {
			return have.State().Waits, nil
		}
		return "", err
	})
	return have, err
}

// IsBare reports whether nothing of Kubernetes is set up on a machine, so that a restart interrupts
// nothing. A machine that does not answer may have something.
func (ks *Kubernetes) IsBare(ctx context.Context, n spec.Node) bool {
	if ks.Nodes.Observation(n.Name).Absent.Load() {
		return true
	}
	have, err := ks.Distribution.Observe(ctx, n)
	return err == nil && have.State().Role == ""
}

// FirstServerStep is [Members.MemberStep] for the server that creates the cluster. As long as nothing was
// ever set up there, it asks mayCreate, whose error keeps it from that.
func (ms *Members) FirstServerStep(n spec.Node, mayCreate func(context.Context) error) converge.Step {
	step := ms.MemberStep(n)
	observe := step.Observe
	step.Observe = func(ctx context.Context) (distribution.Member, error) {
		have, err := observe(ctx)
		if err != nil {
			return nil, err
		}
		if s := have.State(); s.Role == "" && !s.Configured {
			err = mayCreate(ctx)
		}
		return have, err
	}
	return step
}

// IsForeign reports whether an error says that what a machine has belongs to another cluster.
func IsForeign(err error) bool {
	return errors.Is(err, distribution.ErrForeign)
}
