package k3s

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/cps-gpu/homelab/internal/kubeconfig"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// fullToken is a token that also names the cluster's authority, so that a joining machine
// knows that it talks to the right cluster.
var fullToken = regexp.MustCompile(`^K10[0-9a-f]{64}::[^\s:]+(:|\.)\S+$`)

// ErrNoCluster says that no cluster was created on a machine yet.
var ErrNoCluster = errors.New("no cluster was created on this machine yet")

// Token reads on a running server the token with which further servers join. Agents may use it
// too, unless the cluster has a separate token for them.
func Token(ctx context.Context, r remote.Runner) (secret.Value, error) {
	return readToken(ctx, r, serverTokenFile)
}

// AgentToken reads on a running server the token with which agents join.
func AgentToken(ctx context.Context, r remote.Runner) (secret.Value, error) {
	return readToken(ctx, r, agentTokenFile)
}

func readToken(ctx context.Context, r remote.Runner, path string) (secret.Value, error) {
	b, err := remote.ReadFile(ctx, r, path)
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, fmt.Errorf("read the token: %w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if !fullToken.MatchString(t) {
		return secret.Value{}, fmt.Errorf("read the token: %s does not hold one that begins with K10", path)
	}
	return secret.New(t), nil
}

// Kubeconfig reads the administrator's kubeconfig on a running server, for use on another
// machine: it points to server, and its names are cluster. It gives access to the whole
// cluster, so it is a secret.
func Kubeconfig(ctx context.Context, r remote.Runner, server, cluster string) (secret.Value, error) {
	return kubeconfig.Read(ctx, r, kubeconfigFile, kubeconfig.Access{Server: server, Cluster: cluster}, ErrNoCluster)
}
