package members

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/spec"
)

// OthersK3sError is K3s on an external machine that is of another cluster, as far as can
// be seen: it is left alone.
type OthersK3sError struct {
	Node    string
	Role    k3s.Role
	Of      string // the cluster that its mark names; empty where it has none
	Cluster string // of the file
}

// Error returns whose K3s it is, and what to do about it.
func (e *OthersK3sError) Error() string {
	if e.Of != "" && e.Of != e.Cluster {
		return fmt.Sprintf("K3s on the external machine %s belongs to another cluster, %s (%s): remove it there (node:remove -node=%s with the file of %s), or remove %s from the file",
			e.Node, e.Of, k3s.ClusterFile, e.Node, e.Of, e.Node)
	}
	role := "K3s"
	if e.Role != k3s.RoleNone {
		role = "K3s runs, as " + string(e.Role) + ","
	}
	return fmt.Sprintf("%s on the external machine %s already, and may belong to another cluster: remove it there (k3s-uninstall.sh or k3s-agent-uninstall.sh), "+
		"or remove %s from the file; if it belongs to %s, run there: echo %s | sudo tee %s", role, e.Node, e.Node, e.Cluster, e.Cluster, k3s.ClusterFile)
}

// Owns returns nil if the K3s on a machine belongs to this cluster or to none: an external
// machine may have been a member of another before it came into the file, and may be one
// still. Names and addresses alone prove nothing, they are alike in many houses. What does:
// the mark that Up leaves, with the address or the authority of our API; and, for what an
// earlier version has set up, the node's name with one of these two. Without a mark an
// address counts where it is that of a machine that we made, and a server that has joined
// nothing, which is its own authority, where the kubeconfig of this cluster trusts it.
func (ms *Members) Owns(ctx context.Context, n spec.Node, have k3s.State) error {
	if !n.External || have.Cluster == "" && have.Role == k3s.RoleNone && have.Config == nil && have.Authority == "" {
		return nil
	}
	others := &OthersK3sError{Node: n.Name, Role: have.Role, Of: have.Cluster, Cluster: ms.Spec.Name}
	marked := have.Cluster == ms.Spec.Name
	if !marked && (have.Cluster != "" || have.Config["node-name"] != n.Name) {
		return others
	}
	server, joined := have.Config["server"]
	switch {
	case joined && server == APIURL(ms.Spec) && (marked || have.Authority == "" || !ms.Spec.Servers()[0].External):
		return nil // without a mark an address says only what it is the address of
	case marked && (!joined || have.Authority == ""): // it makes our cluster, or was never in any
		return nil
	}
	ours, err := ms.authorities(ctx, n)
	if err != nil || ours[have.Authority] {
		return err
	}
	return others
}

// authorities are the certificate authorities that are known to be of this cluster, but for
// what one machine says of itself: that of the kubeconfig here, and those of servers that
// are ours.
func (ms *Members) authorities(ctx context.Context, but spec.Node) (map[string]bool, error) {
	ours := map[string]bool{}
	b, err := os.ReadFile(ms.Kubeconfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if ca, err := k3s.Authority(b); err == nil {
			sum := sha256.Sum256(ca)
			ours[hex.EncodeToString(sum[:])] = true
		}
	}
	for _, n := range ms.Spec.Servers() {
		if n.Name == but.Name || nodes.SeenOf(ctx, n.Name).Absent.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askTime)
		have, err := k3s.Observe(ctx, ms.Nodes.Root(n.Name))
		cancel()
		if err == nil && have.Authority != "" && (!n.External || have.Cluster == ms.Spec.Name) {
			ours[have.Authority] = true
		}
	}
	return ours, nil
}

// OwnServer is an error for an external server whose K3s is not of this cluster: what it
// says of its cluster is not to be acted upon.
func (ms *Members) OwnServer(ctx context.Context, name string) error {
	n, _ := ms.Spec.Node(name)
	met := nodes.SeenOf(ctx, name)
	if !n.External || met.Owned.Load() {
		return nil
	}
	have, err := k3s.Observe(ctx, ms.Nodes.Root(name))
	if err == nil {
		err = ms.Owns(ctx, n, have)
	}
	if err == nil && have.Cluster != "" {
		met.Owned.Store(true)
	}
	return err
}

// markK3s notes on an external machine, before anything else comes there, whose K3s it is.
func (ms *Members) markK3s(ctx context.Context, n spec.Node, have k3s.State) error {
	if !n.External || have.Cluster == ms.Spec.Name {
		return nil
	}
	if err := remote.WriteFile(ctx, ms.Nodes.Root(n.Name), k3s.ClusterFile, []byte(ms.Spec.Name+"\n"), 0o644); err != nil {
		return fmt.Errorf("mark K3s on %s as ours: %w", n.Name, err)
	}
	return nil
}

// diffMark is the mark that K3s of an earlier version lacks.
func (ms *Members) diffMark(n spec.Node, have k3s.State) drift.Diff {
	if !n.External || have.Role == k3s.RoleNone || have.Cluster == ms.Spec.Name {
		return nil
	}
	return drift.Diff{{Path: "mark", Have: "none", Want: ms.Spec.Name, Effect: drift.Update}}
}

// Foreign returns a permanent error for K3s that another cluster owns.
func Foreign(err error) error {
	var others *OthersK3sError
	if errors.As(err, &others) {
		return converge.Permanent(err)
	}
	return err
}
