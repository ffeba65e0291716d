package kubeadmnodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/secret"
)

// Admit creates a token for one agent. What a server needs to join is made when it joins, by the server that is named in
// the admission: the keys of a cluster are not kept for somebody who only restarts.
func (ns *Nodes) Admit(ctx context.Context, server string, n spec.Node, valid time.Duration) (distribution.Admission, error) {
	if n.Role == spec.Server {
		return distribution.Admission{Value: secret.New(server)}, ns.mayAdmit(ctx, server)
	}
	t, err := kubeadm.CreateToken(ctx, ns.root(server), valid, ns.describe(n))
	if err != nil {
		return distribution.Admission{}, meaning(err)
	}
	return distribution.Admission{ID: t.ID, Value: t.Seal()}, nil
}

// describe is what a token says for whom it is.
func (ns *Nodes) describe(n spec.Node) string { return "homelab: " + ns.spec.Name + "/" + n.Name }

// mayAdmit says why a server has no cluster that another one could join.
func (ns *Nodes) mayAdmit(ctx context.Context, server string) error {
	have, err := kubeadm.Observe(ctx, ns.root(server))
	switch {
	case err != nil:
		return err
	case have.Role != kubeadm.Server:
		return meaning(fmt.Errorf("%w: %s", kubeadm.ErrNoCluster, server))
	case have.Starting:
		return fmt.Errorf("the start of %s was cut short", server)
	}
	return nil
}

// mayJoin says why a machine must not join a server: the cluster would not be the one of the file, or its kubelet newer
// than an API server.
func (ns *Nodes) mayJoin(ctx context.Context, server string) error {
	have, err := kubeadm.Observe(ctx, ns.root(server))
	if err != nil {
		return err
	}
	if err := have.CheckSettings(ns.clusterOf()); err != nil {
		return fmt.Errorf("%s: %w", server, err)
	}
	if kubeadm.CompareVersions(have.Version, ns.spec.K3s.Version) < 0 {
		return fmt.Errorf("%s runs Kubernetes %s, and a server that joins with %s would be newer: write kubeadm.version: %[2]s until it has joined", server, have.Version, ns.spec.K3s.Version)
	}
	return nil
}

// Revoke deletes the token of an agent.
func (ns *Nodes) Revoke(ctx context.Context, server string, a distribution.Admission) error {
	return kubeadm.RevokeToken(ctx, ns.root(server), a.ID)
}

// serverTime is how long a server has to join.
const serverTime = 30 * time.Minute

// joinServer lets a machine join as a server, with a token that another server creates and revokes.
func (m *member) joinServer(ctx context.Context, w distribution.Wish, by string) (err error) {
	c, node, root := m.clusterOf(), m.nodeOf(m.node, w), m.root(m.node.Name)
	have, err := kubeadm.Observe(ctx, root) // it may have been stopped since m was seen
	if err != nil {
		return err
	}
	if have.Joined && !have.Starting {
		return kubeadm.JoinServer(ctx, root, c, node, kubeadm.Token{})
	}
	if err := m.mayJoin(ctx, by); err != nil {
		return err
	}
	if have.Restoring != "" && !have.Starting { // the snapshot may know it as Ready
		if err := kubeadm.DeleteNode(ctx, m.root(by), m.node.Name); err != nil {
			return err
		}
	}
	other, _ := m.spec.Node(by)
	t, err := kubeadm.CreateServerToken(ctx, m.root(by), c, m.nodeOf(other, distribution.Wish{}), run.Limit(m.spec, serverTime), m.describe(m.node))
	if t.ID != "" {
		defer func() { err = errors.Join(err, m.revoke(ctx, by, t)) }()
	}
	if err != nil {
		return err
	}
	return kubeadm.JoinServer(ctx, root, c, node, t)
}

// revoke deletes a token, also when the run was interrupted.
func (ns *Nodes) revoke(ctx context.Context, by string, t kubeadm.Token) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.Limit(ns.spec, revokeTime))
	defer cancel()
	return kubeadm.RevokeToken(ctx, ns.root(by), t.ID)
}

// revokeTime limits how long to try to revoke a token.
const revokeTime = 20 * time.Second

// Forget removes a server from etcd, by way of another one. A member that never started has no name: one whose address
// no other server of the file has was announced for a machine that is gone.
func (ns *Nodes) Forget(ctx context.Context, node string) error {
	var errs []error
	for _, by := range ns.spec.Servers() {
		if by.Name == node {
			continue
		}
		have, err := kubeadm.Observe(ctx, ns.root(by.Name))
		if err == nil && (have.Role != kubeadm.Server || have.Starting) {
			continue
		}
		if err == nil {
			if err = ns.forgetBy(ctx, by.Name, node); err == nil {
				return nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", by.Name, err))
	}
	return errors.Join(errs...)
}

func (ns *Nodes) forgetBy(ctx context.Context, by, node string) error {
	all, err := kubeadm.Members(ctx, ns.root(by))
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Name == node || m.Name == "" && !ns.isOfOther(m, node) {
			if err := kubeadm.RemoveMember(ctx, ns.root(by), m); err != nil {
				return err
			}
		}
	}
	return nil
}

// isOfOther reports whether a member is for another server of the file than node.
func (ns *Nodes) isOfOther(m kubeadm.Member, node string) bool {
	return slices.ContainsFunc(ns.spec.Servers(), func(n spec.Node) bool { return n.Name != node && n.Address.Addr() == m.Address })
}

// isFirst reports whether a server is the one whose upgrade is the cluster's.
func (m *member) isFirst() bool {
	return m.node.Role == spec.Server && m.node.Name == m.spec.Servers()[0].Name
}
