package k3snodes

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

// member is K3s on a machine, as it was just seen.
type member struct {
	*Nodes
	node spec.Node
	have k3s.State
}

// Observe reads the state of K3s on a machine.
func (ns *Nodes) Observe(ctx context.Context, n spec.Node) (distribution.Member, error) {
	have, err := k3s.Observe(ctx, ns.root(n.Name))
	if err != nil {
		return nil, err
	}
	return &member{ns, n, have}, nil
}

// State returns what a cluster needs to know.
func (m *member) State() distribution.State {
	s := distribution.State{
		Role: spec.Role(m.have.Role), Configured: m.have.Config != nil, Started: m.have.Applied != "", Admitted: m.have.TokenMode != "",
		Running: m.have.Running(), Active: m.have.Active, Ended: m.have.Ended, Waits: strings.TrimSuffix(m.have.Active+": "+m.have.Reason(), ": "), Version: m.have.Version,
		Cluster: m.have.Cluster, Authority: m.have.Authority, ProviderID: m.have.ProviderID(), Restoring: m.have.Restoring,
	}
	if server, joined := m.have.Config["server"]; joined {
		s.API = fmt.Sprint(server)
	}
	d, ok := m.have.Diagnosis()
	s.Fault = distribution.Fault{Cause: d.Cause, Cure: d.Cure, Line: d.Line}
	if ok && d.Fatal {
		s.Stuck = &k3s.StartError{Role: m.have.Role, Diagnosis: d}
		switch {
		case d.StaleCertificate():
			s.Stuck = distribution.Means(s.Stuck, distribution.ErrStale)
		case d.NodePassword():
			s.Stuck = distribution.Means(s.Stuck, distribution.ErrName)
		}
	}
	return s
}

// Refuse says what K3s cannot become, and reports files that it reads besides ours.
func (m *member) Refuse(ctx context.Context) error {
	if err := k3s.CheckArch(m.have.Arch); err != nil {
		return fmt.Errorf("%s: %w", m.node.Name, err)
	}
	if _, err := artifacts.Registries(m.spec); err != nil {
		return err
	}
	for _, o := range m.have.ForeignFiles {
		converge.Progressf(ctx, "K3s also reads %s, which is not from this file; homelab leaves it unchanged", o)
	}
	if m.node.Role != spec.Server {
		return nil
	}
	if _, err := bucket(m.spec); err != nil {
		return err
	}
	if err := m.CheckRanges(); err != nil {
		return err
	}
	want, err := m.Server(m.node, distribution.Wish{ProviderID: m.have.ProviderID()})
	if err != nil {
		return err
	}
	if err := want.CheckAddress(m.have); err != nil {
		return fmt.Errorf("%s: %w: write the file as it was (k3s.network), or replace one server after the other (node:replace), if there are three", m.node.Name, err)
	}
	return nil
}

// CheckRanges returns an error if a server runs with other networks of pods and services than those of the file.
func (m *member) CheckRanges() error {
	if m.node.Role != spec.Server {
		return nil
	}
	want, err := m.Server(m.node, distribution.Wish{ProviderID: m.have.ProviderID()})
	if err != nil {
		return err
	}
	if err := want.CheckRanges(m.have); err != nil {
		return fmt.Errorf("%s: %w, which K3s cannot change: write k3s.podCIDR and k3s.serviceCIDR as they were, or recreate the cluster (cluster:down, cluster:up)", m.node.Name, err)
	}
	return nil
}

// Foreign says whose this K3s seems to be.
func (m *member) Foreign() error {
	return distribution.Means(&k3s.ForeignClusterError{Node: m.node.Name, Role: m.have.Role, Of: m.have.Cluster, Cluster: m.spec.Name}, distribution.ErrForeign)
}

// Diff compares K3s with the file.
func (m *member) Diff(w distribution.Wish) converge.Diff {
	if m.node.Role == spec.Agent {
		agent, err := m.Agent(m.node, w)
		if err != nil {
			return converge.Missing(err.Error())
		}
		return agent.Diff(m.have)
	}
	srv, err := m.Server(m.node, w)
	if err != nil {
		return converge.Missing(err.Error())
	}
	return srv.Diff(m.have)
}

// Install installs the binary if the template does not contain it.
func (m *member) Install(ctx context.Context) error {
	if m.have.Version == m.spec.K3s.Version {
		return nil
	}
	return artifacts.Install(ctx, m.spec, m.root(m.node.Name), m.have.Arch)
}

// Start starts K3s as the file says.
func (m *member) Start(ctx context.Context, w distribution.Wish, a distribution.Admission) error {
	root := m.root(m.node.Name)
	if m.node.Role == spec.Agent {
		agent, err := m.Agent(m.node, w)
		if err != nil {
			return err
		}
		return k3s.JoinAgent(ctx, root, k3s.Join{Token: a.Value, Agent: agent})
	}
	srv, err := m.Server(m.node, w)
	if err != nil {
		return err
	}
	if w.Joins {
		srv.Token = a.Value
		return k3s.JoinServer(ctx, root, srv)
	}
	return k3s.StartServer(ctx, root, srv) // it needs no token: it has made the cluster's
}

// Upgrade brings K3s to the file's version, and to what the file says.
func (m *member) Upgrade(ctx context.Context, w distribution.Wish, a distribution.Admission) error {
	do, err := m.upgrade(w, a)
	if err != nil {
		return err
	}
	root := m.root(m.node.Name)
	return artifacts.WithStaged(ctx, m.spec, root, m.have.Arch, func(ctx context.Context) error {
		return do(ctx, nodes.WithProxy(m.spec, root), artifacts.Release(m.spec, m.have.Arch))
	})
}

func (m *member) upgrade(w distribution.Wish, a distribution.Admission) (func(context.Context, remote.Runner, k3s.Release) error, error) {
	if m.node.Role == spec.Agent {
		agent, err := m.Agent(m.node, w)
		return func(ctx context.Context, r remote.Runner, release k3s.Release) error {
			return k3s.UpgradeAgent(ctx, r, release, k3s.Join{Token: a.Value, Agent: agent})
		}, err
	}
	srv, err := m.Server(m.node, w)
	if w.Joins {
		srv.Token = a.Value
	}
	return func(ctx context.Context, r remote.Runner, release k3s.Release) error {
		return k3s.UpgradeServer(ctx, r, release, srv)
	}, err
}
