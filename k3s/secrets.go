package k3s

import (
	"cmp"
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

// KubeconfigAccess says how a kubeconfig reaches its cluster.
type KubeconfigAccess struct {
	Server   string // e.g. https://10.0.0.10:6443
	Cluster  string // name of the cluster, its user and its context; empty keeps the names
	ProxyURL string // e.g. socks5://127.0.0.1:1080; empty for none
}

// Kubeconfig reads the administrator's kubeconfig on a running server, for use on another
// machine: it points to server, and its names are cluster. It gives access to the whole
// cluster, so it is a secret.
func Kubeconfig(ctx context.Context, r remote.Runner, server, cluster string) (secret.Value, error) {
	b, err := remote.ReadFile(ctx, r, kubeconfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w: %w", ErrNoCluster, err)
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	out, err := RewriteKubeconfig(b, KubeconfigAccess{Server: server, Cluster: cluster})
	if err != nil {
		return secret.Value{}, err
	}
	return secret.New(string(out)), nil
}

// RewriteKubeconfig returns a kubeconfig of one cluster, such as K3s writes, with another
// access. It keeps authority, certificates, keys and tokens. Keys that K3s never writes are an
// error: root on a server could otherwise make this side read its own files (tokenFile) or run
// a program (exec).
func RewriteKubeconfig(kubeconfig []byte, to KubeconfigAccess) ([]byte, error) {
	var doc kubeconfigDoc
	if err := yaml.UnmarshalStrict(kubeconfig, &doc); err != nil {
		return nil, fmt.Errorf("kubeconfig: it is not in the format that K3s writes, and is not used: %w", err)
	}
	if err := cmp.Or(exactlyOne("clusters", len(doc.Clusters)), exactlyOne("users", len(doc.Users)),
		exactlyOne("contexts", len(doc.Contexts))); err != nil {
		return nil, err
	}
	cluster, user, way := &doc.Clusters[0], &doc.Users[0], &doc.Contexts[0]
	cluster.Cluster.Server, cluster.Cluster.ProxyURL = to.Server, to.ProxyURL
	if to.Cluster != "" {
		cluster.Name, user.Name, way.Name, doc.CurrentContext = to.Cluster, to.Cluster, to.Cluster, to.Cluster
		way.Context.Cluster, way.Context.User = to.Cluster, to.Cluster
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return out, nil
}

// KubeconfigAuthority returns the certificate authority, PEM, that a kubeconfig of one cluster
// trusts.
func KubeconfigAuthority(kubeconfig []byte) ([]byte, error) {
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

func exactlyOne(list string, found int) error {
	if found != 1 {
		return fmt.Errorf("kubeconfig: expected one entry in %s, found %d", list, found)
	}
	return nil
}

// kubeconfigDoc has the keys that K3s writes to a kubeconfig
// (clientaccess.WriteClientKubeConfig).
type kubeconfigDoc struct {
	APIVersion     string              `json:"apiVersion,omitempty"`
	Kind           string              `json:"kind,omitempty"`
	Clusters       []kubeconfigCluster `json:"clusters"`
	Contexts       []kubeconfigContext `json:"contexts"`
	CurrentContext string              `json:"current-context,omitempty"`
	Preferences    *struct{}           `json:"preferences,omitempty"`
	Users          []kubeconfigUser    `json:"users"`
}

type kubeconfigCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Authority string `json:"certificate-authority-data,omitempty"`
		Server    string `json:"server"`
		ProxyURL  string `json:"proxy-url,omitempty"`
	} `json:"cluster"`
}

type kubeconfigContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"context"`
}

type kubeconfigUser struct {
	Name string `json:"name"`
	User struct {
		Certificate string `json:"client-certificate-data,omitempty"`
		Key         string `json:"client-key-data,omitempty"`
		Token       string `json:"token,omitempty"`
	} `json:"user"`
}
