// Package kubeconfig reads and changes kubeconfigs of one cluster.
package kubeconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Access says how a kubeconfig reaches its cluster.
type Access struct {
	Server   string // e.g. https://10.0.0.10:6443
	Cluster  string // name of the cluster, its user and its context; empty keeps the names
	ProxyURL string // e.g. socks5://127.0.0.1:1080; empty for none
}

// Read reads the administrator's kubeconfig on a server, as [Rewrite] returns it. It gives access to the whole cluster,
// so it is a secret. Without the file the error is noCluster.
func Read(ctx context.Context, r remote.Runner, path string, to Access, noCluster error) (secret.Value, error) {
	b, err := remote.ReadFile(ctx, r, path)
	if errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w: %w", noCluster, err)
	}
	if err != nil {
		return secret.Value{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	out, err := Rewrite(b, to)
	if err != nil {
		return secret.Value{}, err
	}
	return secret.New(string(out)), nil
}

// Rewrite returns a kubeconfig of one cluster, such as K3s writes, with another
// access. It keeps authority, certificates, keys and tokens. Keys that K3s never writes are an
// error: root on a server could otherwise make this side read its own files (tokenFile) or run
// a program (exec).
func Rewrite(kubeconfig []byte, to Access) ([]byte, error) {
	var doc file
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

func exactlyOne(list string, found int) error {
	if found != 1 {
		return fmt.Errorf("kubeconfig: expected one entry in %s, found %d", list, found)
	}
	return nil
}

// file has the keys that K3s writes to a kubeconfig
// (clientaccess.WriteClientKubeConfig).
type file struct {
	APIVersion     string         `json:"apiVersion,omitempty"`
	Kind           string         `json:"kind,omitempty"`
	Clusters       []clusterEntry `json:"clusters"`
	Contexts       []contextEntry `json:"contexts"`
	CurrentContext string         `json:"current-context,omitempty"`
	Preferences    *struct{}      `json:"preferences,omitempty"`
	Users          []userEntry    `json:"users"`
}

type clusterEntry struct {
	Name    string `json:"name"`
	Cluster struct {
		Authority string `json:"certificate-authority-data,omitempty"`
		Server    string `json:"server"`
		ProxyURL  string `json:"proxy-url,omitempty"`
	} `json:"cluster"`
}

type contextEntry struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"context"`
}

type userEntry struct {
	Name string `json:"name"`
	User struct {
		Certificate string `json:"client-certificate-data,omitempty"`
		Key         string `json:"client-key-data,omitempty"`
		Token       string `json:"token,omitempty"`
	} `json:"user"`
}
