package k3s

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// bootstrapToken is what "k3s token create" prints: the digest of the cluster's authority, the
// token's ID, and its secret.
var bootstrapToken = regexp.MustCompile(`(?m)^K10[0-9a-f]{64}::([a-z0-9]{6})\.[a-z0-9]{16}$`)

// tokenID is what names a token in the cluster. It is not a secret.
var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// CreateToken creates, on a running server, a token with which agents join for the time ttl, and
// returns its ID for [RevokeToken]. Servers cannot join with it. The token is needed only to
// join: an agent that has joined authenticates with its node's certificate when it starts again
// (K3s v1.34.3, pkg/agent/config/config.go: the client certificate goes with each request, and
// pkg/authenticator accepts either). It needs a new token if its Node was deleted meanwhile, or
// if it was off until its certificate expired.
func CreateToken(ctx context.Context, r remote.Runner, ttl time.Duration, description string) (id string, token secret.Value, err error) {
	if ttl < time.Second {
		return "", secret.Value{}, fmt.Errorf("create a join token: ttl is %s: write at least 1s; K3s would never let a token of 0 expire", ttl)
	}
	out, err := remote.Output(ctx, r, binary, "token", "create", "--kubeconfig", kubeconfigFile,
		"--ttl", ttl.Truncate(time.Second).String(), "--description", description)
	if err != nil {
		return "", secret.Value{}, fmt.Errorf("create a join token: %w", err)
	}
	m := bootstrapToken.FindSubmatch(out)
	if m == nil {
		return "", secret.Value{}, errors.New("create a join token: k3s token create printed none that begins with K10")
	}
	return string(m[1]), secret.New(string(m[0])), nil
}

// RevokeToken deletes a token of [CreateToken]. A token that has expired or was deleted before is
// not an error.
func RevokeToken(ctx context.Context, r remote.Runner, id string) error {
	if !tokenID.MatchString(id) {
		return fmt.Errorf("revoke a join token: %q is not the ID of one: it has six characters, a-z and 0-9", id)
	}
	err := remote.Run(ctx, r, binary, "token", "delete", "--kubeconfig", kubeconfigFile, id)
	var exit *remote.ExitError
	if errors.As(err, &exit) && strings.Contains(exit.Stderr, "not found") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke the join token %s: %w", id, err)
	}
	return nil
}

// Rejoin has an agent join again whose Node was deleted, with a new token. It returns once the
// restart is requested.
//
// The agent still has the certificate of that Node, which the servers refuse. K3s then tries its
// token, but sends an empty request and never gets in (v1.34.3, getNodeNamedCrt of
// pkg/agent/config/config.go; testdata/real/05-agent-again.txt). So the certificate is removed.
func Rejoin(ctx context.Context, r remote.Runner, token secret.Value) error {
	if err := remote.WriteFile(ctx, r, tokenFile, []byte(token.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("join again: %w", err)
	}
	if err := remote.Run(ctx, r, "sh", "-c", startScript, "start.sh", RoleAgent.Unit(), "restart", "", "again"); err != nil {
		return fmt.Errorf("join again: %w", err)
	}
	return nil
}
