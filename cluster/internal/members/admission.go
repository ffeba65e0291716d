package members

import (
	"context"
	"errors"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
)

// joinTokenTime is how long a token for one agent is valid, in case this run ends before it
// revokes the token. The agent may download K3s first.
const joinTokenTime = time.Hour

// revokeTime limits how long to try to revoke a token, also when the run was interrupted.
const revokeTime = 20 * time.Second

// hasJoined reports whether an agent can start again without a token: it runs, so it has the
// certificate of its node, and the cluster has that Node. A K3s server accepts this certificate
// in place of a token, as long as the Node exists.
func (ms *Members) hasJoined(ctx context.Context, n spec.Node, have distribution.State) (bool, error) {
	if !have.Running || !have.Admitted {
		return false, nil
	}
	node, err := ms.ObserveNode(ctx, n.Name)
	return node != nil, err
}

// admit asks a server to let a machine join. It never makes up what a server has: an existing cluster
// has its own, see failure K5.
func (ms *Members) admit(ctx context.Context, n spec.Node) (a distribution.Admission, err error) {
	_, err = ms.askServers(ctx, n.Name, func(ctx context.Context, server string) (secret.Value, error) {
		var err error
		a, err = ms.Distribution.Admit(ctx, server, n, run.Limit(ms.Spec, joinTokenTime))
		return a.Value, err
	})
	return a, err
}

// whileAdmitted calls do with what was made for this join alone, and revokes it when do returns. Anyone who
// reads a token on the worker later can join nothing with it.
func (ms *Members) whileAdmitted(ctx context.Context, n spec.Node, do func(context.Context, distribution.Admission) error) error {
	a, err := ms.admit(ctx, n)
	if err != nil {
		return err
	}
	defer ms.revoke(ctx, a)
	return do(ctx, a)
}

func (ms *Members) revoke(ctx context.Context, a distribution.Admission) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.Limit(ms.Spec, revokeTime))
	defer cancel()
	_, err := ms.askServers(limited, "", func(ctx context.Context, server string) (secret.Value, error) {
		return secret.Value{}, ms.Distribution.Revoke(ctx, server, a)
	})
	if err != nil {
		converge.Progressf(ctx, "the join token %s was not revoked and expires within %s", a.ID, run.Limit(ms.Spec, joinTokenTime))
	}
}

// againTime is how long a member that was just restarted may still look as before.
const againTime = 20 * time.Second

// waitJoined waits until an agent runs, for which it must have joined. One that ended after
// it had its certificate and before its Node registered never joins by itself; it joins again, once.
func (ms *Members) waitJoined(ctx context.Context, n spec.Node, a distribution.Admission) error {
	title := ms.title()
	rule := converge.WaitRule{What: "waiting for " + title + " on " + n.Name, Limit: joinTime, TimeoutText: n.Name + " has not joined the cluster"}
	var again time.Time
	return run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		have, err := ms.observe(ctx, n)
		if errors.Is(err, distribution.ErrStale) && (again.IsZero() || time.Since(again) < againTime) {
			if again.IsZero() {
				again, err = time.Now(), ms.Distribution.Restart(ctx, n, a)
				return title + " ended before its Node registered, and joins again", err
			}
			return title + " joins again", nil
		}
		if err != nil || have.State().Running {
			return "", err
		}
		return title + " is " + have.State().Waits, nil
	})
}
