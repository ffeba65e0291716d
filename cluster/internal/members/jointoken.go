package members

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
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
func (ms *Members) hasJoined(ctx context.Context, n spec.Node, have k3s.State) (bool, error) {
	if !have.Running() || have.TokenMode == "" {
		return false, nil
	}
	node, err := ms.ObserveNode(ctx, n.Name)
	return node != nil, err
}

// withJoinToken calls do with a token that was created for this join alone, and revokes it when
// do returns. Anyone who reads the token on the worker later can join nothing with it.
func (ms *Members) withJoinToken(ctx context.Context, n spec.Node, do func(context.Context, secret.Value) error) error {
	var id string
	create := func(ctx context.Context, r remote.Runner) (token secret.Value, err error) {
		id, token, err = k3s.CreateToken(ctx, r, run.Limit(ms.Spec, joinTokenTime), "homelab: "+ms.Spec.Name+"/"+n.Name)
		return token, err
	}
	token, err := ms.token(ctx, n.Name, create)
	if err != nil {
		return err
	}
	defer ms.revoke(ctx, id)
	return do(ctx, token)
}

func (ms *Members) revoke(ctx context.Context, id string) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.Limit(ms.Spec, revokeTime))
	defer cancel()
	_, err := ms.token(limited, "", func(ctx context.Context, r remote.Runner) (secret.Value, error) {
		return secret.Value{}, k3s.RevokeToken(ctx, r, id)
	})
	if err != nil {
		converge.Progressf(ctx, "the join token %s was not revoked and expires within %s", id, run.Limit(ms.Spec, joinTokenTime))
	}
}

// againTime is how long the journal may still end with a K3s that was just restarted.
const againTime = 20 * time.Second

// waitJoined waits until K3s runs on an agent, for which it must have joined. K3s that ended after
// it had its certificate and before its Node registered never joins by itself; it joins again, once.
func (ms *Members) waitJoined(ctx context.Context, n spec.Node, token secret.Value) error {
	rule := converge.WaitRule{What: "waiting for K3s on " + n.Name, Limit: joinTime, TimeoutText: n.Name + " has not joined the cluster"}
	var again time.Time
	return run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		have, err := ms.observeK3s(ctx, n)
		var start *k3s.StartError
		if errors.As(err, &start) && start.Diagnosis.StaleCertificate() && (again.IsZero() || time.Since(again) < againTime) {
			if again.IsZero() {
				again, err = time.Now(), k3s.Rejoin(ctx, ms.Nodes.Root(n.Name), token)
				return "K3s ended before its Node registered, and joins again", err
			}
			return "K3s joins again", nil
		}
		if err != nil || have.Running() {
			return "", err
		}
		return strings.TrimSuffix("K3s is "+have.Active+": "+have.Reason(), ": "), nil
	})
}
