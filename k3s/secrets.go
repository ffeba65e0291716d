package k3s

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// fullToken is a token that also names the cluster's authority, so that whoever
// joins with it knows that it talks to the right cluster.
var fullToken = regexp.MustCompile(`^K10[0-9a-f]{64}::[^\s:]+(:|\.)\S+$`)

// ErrNoCluster is a machine on which no cluster was formed yet.
var ErrNoCluster = errors.New("no cluster was formed on this machine yet")

// Token reads, on a running server, what further servers join with. Agents may
// use it too, unless the cluster has a token of its own for them.
func Token(ctx context.Context, r remote.Runner) (secret.Value, error) {
	return readToken(ctx, r, serverTokenFile)
}

// AgentToken reads, on a running server, what agents join with.
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

// Access is how a kubeconfig reaches its cluster.
type Access struct {
	Server   string // e.g. https://10.0.0.10:6443
	Cluster  string // what the cluster, its user and its context are called; empty keeps the names
	ProxyURL string // e.g. socks5://127.0.0.1:1080; empty for none
}

// Kubeconfig reads the administrator's kubeconfig on a running server, for use
// from elsewhere: it points at server, and its names are cluster. It is the key to
// the whole cluster, hence a secret.
func Kubeconfig(ctx context.Context, r remote.Runner, server, cluster string) (secret.Value, error) {
	b, err := remote.ReadFile(ctx, r, kubeconfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	out, err := RewriteKubeconfig(b, Access{Server: server, Cluster: cluster})
	if err != nil {
		return secret.Value{}, err
	}
	return secret.New(string(out)), nil
}

// RewriteKubeconfig returns a kubeconfig of one cluster, such as K3s writes, with
// another way in. All else in it stays.
func RewriteKubeconfig(kubeconfig []byte, to Access) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(kubeconfig, &doc); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	cluster, err := only(doc, "clusters")
	if err != nil {
		return nil, err
	}
	user, err := only(doc, "users")
	if err != nil {
		return nil, err
	}
	ctx, err := only(doc, "contexts")
	if err != nil {
		return nil, err
	}
	how, ok := cluster["cluster"].(map[string]any)
	if !ok {
		return nil, errors.New("kubeconfig: its cluster says nothing of how to reach it")
	}
	how["server"] = to.Server
	if to.ProxyURL != "" {
		how["proxy-url"] = to.ProxyURL
	}
	if to.Cluster != "" {
		cluster["name"], user["name"], ctx["name"] = to.Cluster, to.Cluster, to.Cluster
		doc["current-context"] = to.Cluster
		inner, ok := ctx["context"].(map[string]any)
		if !ok {
			inner = map[string]any{}
			ctx["context"] = inner
		}
		inner["cluster"], inner["user"] = to.Cluster, to.Cluster
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return out, nil
}

// Authority returns the certificate authority, PEM, that a kubeconfig of one cluster
// trusts.
func Authority(kubeconfig []byte) ([]byte, error) {
	var doc struct {
		Clusters []struct {
			Cluster struct {
				Data []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := yaml.Unmarshal(kubeconfig, &doc); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if len(doc.Clusters) != 1 || len(doc.Clusters[0].Cluster.Data) == 0 {
		return nil, errors.New("kubeconfig: expected one cluster with certificate-authority-data")
	}
	return doc.Clusters[0].Cluster.Data, nil
}

// only returns the one entry of a kubeconfig's list.
func only(doc map[string]any, list string) (map[string]any, error) {
	entries, _ := doc[list].([]any)
	if len(entries) != 1 {
		return nil, fmt.Errorf("kubeconfig: expected one entry in %s, found %d", list, len(entries))
	}
	entry, ok := entries[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("kubeconfig: the entry in %s is not a mapping", list)
	}
	return entry, nil
}
