package members

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

// Owns returns nil if the K3s on a machine belongs to this cluster or to none. An external
// machine may have been a member of another cluster before it was added to the file, and may
// still be one. Names and addresses alone prove nothing, since many sites use the same ones.
// Proof is the mark that Up writes, together with the address or the authority of this
// cluster's API. A server that has not joined another is its own authority.
func (ks *Kubernetes) Owns(ctx context.Context, n spec.Node, have k3s.State) error {
	if !n.External || have.Cluster == "" && have.Role == k3s.RoleNone && have.Config == nil && have.Authority == "" {
		return nil
	}
	others := &k3s.ForeignClusterError{Node: n.Name, Role: have.Role, Of: have.Cluster, Cluster: ks.Spec.Name}
	if have.Cluster != ks.Spec.Name {
		return others
	}
	server, joined := have.Config["server"]
	if !joined || server == apiURL(ks.Spec) || have.Authority == "" { // it creates this cluster, or was never in one
		return nil
	}
	ours, err := ks.authorities(ctx, n)
	if err != nil || ours[have.Authority] {
		return err
	}
	return others
}

// ClusterExists reports whether anything but a server itself says that this cluster exists.
func (ks *Kubernetes) ClusterExists(ctx context.Context, n spec.Node) (bool, error) {
	ours, err := ks.authorities(ctx, n)
	return len(ours) > 0, err
}

// authorities are the certificate authorities that are known to belong to this cluster: that
// of the local kubeconfig, and those of its servers. It leaves out what the machine but says
// about itself.
func (ks *Kubernetes) authorities(ctx context.Context, but spec.Node) (map[string]bool, error) {
	ours := map[string]bool{}
	b, err := os.ReadFile(ks.Kubeconfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if ca, err := k3s.KubeconfigAuthority(b); err == nil {
			sum := sha256.Sum256(ca)
			ours[hex.EncodeToString(sum[:])] = true
		}
	}
	for _, n := range ks.Spec.Servers() {
		if n.Name == but.Name || ks.Nodes.Observation(n.Name).Absent.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		have, err := k3s.Observe(ctx, ks.Nodes.Root(n.Name))
		cancel()
		if err == nil && have.Authority != "" && (!n.External || have.Cluster == ks.Spec.Name) {
			ours[have.Authority] = true
		}
	}
	return ours, nil
}

// CheckOwnServer returns an error if the K3s of an external server does not belong to this
// cluster: nothing that this server says about its cluster may be used.
func (ks *Kubernetes) CheckOwnServer(ctx context.Context, name string) error {
	n, _ := ks.Spec.Node(name)
	met := ks.Nodes.Observation(name)
	if !n.External || met.Owned.Load() {
		return nil
	}
	have, err := k3s.Observe(ctx, ks.Nodes.Root(name))
	if err == nil {
		err = ks.Owns(ctx, n, have)
	}
	if err == nil && have.Cluster != "" {
		met.Owned.Store(true)
	}
	return err
}

// markK3s records the owner of K3s on an external machine, before anything else is installed.
func (ks *Kubernetes) markK3s(ctx context.Context, n spec.Node, have k3s.State) error {
	if !n.External || have.Cluster == ks.Spec.Name {
		return nil
	}
	if err := remote.WriteFile(ctx, ks.Nodes.Root(n.Name), k3s.ClusterFile, []byte(ks.Spec.Name+"\n"), 0o644); err != nil {
		return fmt.Errorf("mark K3s on %s as ours: %w", n.Name, err)
	}
	return nil
}

// PermanentIfForeign makes the error for K3s of another cluster permanent.
func PermanentIfForeign(err error) error {
	if IsForeign(err) {
		return converge.Permanent(err)
	}
	return err
}
