package kubeadmnodes

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kubeadm"
)

// member is Kubernetes on a machine, as it was just seen.
type member struct {
	*Nodes
	node spec.Node
	have kubeadm.State
}

// Observe reads the state of Kubernetes on a machine.
func (ns *Nodes) Observe(ctx context.Context, n spec.Node) (distribution.Member, error) {
	have, err := kubeadm.Observe(ctx, ns.root(n.Name))
	if err != nil {
		return nil, err
	}
	return &member{ns, n, have}, nil
}

// State returns what a cluster needs to know.
func (m *member) State() distribution.State {
	s := distribution.State{
		Role: spec.Role(m.have.Role), Configured: m.have.Role != "", Started: m.have.Role != "", Admitted: m.have.Joined,
		Running: m.have.Running(), Active: m.have.Active, Waits: "kubelet is " + m.have.Active, Version: m.have.Version,
		Cluster: m.have.Cluster, Authority: m.have.Authority, ProviderID: m.have.ProviderID(),
		API: m.have.API, Restoring: m.have.Restoring,
	}
	if n := len(m.have.Journal); n > 0 && m.have.Joined {
		s.Ended = m.have.Journal[n-1]
		s.Waits += ": " + s.Ended
	}
	return s
}

// Refuse says what this machine cannot become.
func (m *member) Refuse(ctx context.Context) error {
	if err := m.fit(ctx); err != nil {
		return err
	}
	if m.have.Role != "" && m.have.Role != kubeadm.Role(m.node.Role) {
		return fmt.Errorf("%s is %s of a cluster and should be %s: homelab node:replace -node=%s recreates its machine", m.node.Name, m.have.Role, m.node.Role, printable.Word(m.node.Name))
	}
	if err := m.have.CheckRuntime(kubeadm.Runtime(m.spec.Kubeadm.Runtime)); err != nil {
		return fmt.Errorf("%s: %w: write kubeadm.runtime as it was, or recreate the machine (homelab node:replace -node=%s)", m.node.Name, err, printable.Word(m.node.Name))
	}
	return m.CheckRanges()
}

// Inspect says what keeps Kubernetes from an external machine.
func (ns *Nodes) Inspect(ctx context.Context, n spec.Node) error {
	have, err := kubeadm.Observe(ctx, ns.root(n.Name))
	if err != nil {
		return err
	}
	return (&member{ns, n, have}).fit(ctx)
}

// fit is Inspect of the machine as it was just seen.
func (m *member) fit(ctx context.Context) error {
	if !m.node.External || m.have.Joined {
		return nil
	}
	all, err := kubeadm.InspectMachine(ctx, m.root(m.node.Name), kubeadm.Role(m.node.Role), m.have.Cluster != "")
	if err != nil || len(all) == 0 {
		return err
	}
	return distribution.Means(fmt.Errorf("on the external machine %s: %s", m.node.Name, strings.Join(all, "; ")), distribution.ErrUnfit)
}

// CheckRanges returns an error if a server was created with other settings.
func (m *member) CheckRanges() error {
	if err := m.have.CheckSettings(m.clusterOf()); err != nil {
		return fmt.Errorf("%s: %w, which homelab does not change in kubeadm's clusters: write it as it was, or recreate the cluster (cluster:down, cluster:up)", m.node.Name, err)
	}
	return nil
}

// Foreign says whose this Kubernetes seems to be.
func (m *member) Foreign() error {
	of := "no cluster of homelab's"
	if m.have.Cluster != "" {
		of = "the cluster " + m.have.Cluster
	}
	return distribution.Means(fmt.Errorf("the Kubernetes on %s belongs to %s, and not to %s: move its work and remove it there (kubeadm reset), or take %[1]s out of the file", m.node.Name, of, m.spec.Name), distribution.ErrForeign)
}

// Diff compares the machine with the file.
func (m *member) Diff(w distribution.Wish) converge.Diff {
	return m.have.Diff(m.clusterOf(), m.nodeOf(m.node, w), kubeadm.Role(m.node.Role))
}

// Install installs the packages.
func (m *member) Install(ctx context.Context) error {
	if m.have.Version == m.spec.K3s.Version && m.have.Held {
		return nil
	}
	return kubeadm.Install(ctx, nodes.WithProxy(m.spec, m.root(m.node.Name)), m.release())
}

// Start creates the cluster, or joins it. It returns once that is done, or kubelet is started.
func (m *member) Start(ctx context.Context, w distribution.Wish, a distribution.Admission) error {
	root, node := m.root(m.node.Name), m.nodeOf(m.node, w)
	if m.node.Role == spec.Agent {
		return kubeadm.Join(ctx, root, m.clusterOf(), node, kubeadm.OpenToken(a.Value))
	}
	if w.Joins {
		return m.joinServer(ctx, w, a.Value.Reveal())
	}
	return kubeadm.Create(ctx, root, m.clusterOf(), node)
}

// Upgrade brings the machine to the file's version. The first server of the file goes first.
func (m *member) Upgrade(ctx context.Context, _ distribution.Wish, _ distribution.Admission) error {
	do := kubeadm.Upgrade
	if m.isFirst() {
		do = kubeadm.UpgradeFirst
	}
	return do(ctx, nodes.WithProxy(m.spec, m.root(m.node.Name)), m.release())
}

func (m *member) release() kubeadm.Release {
	return kubeadm.Release{Version: m.spec.K3s.Version, Runtime: kubeadm.Runtime(m.spec.Kubeadm.Runtime), Key: m.spec.Kubeadm.RuntimeKey}
}
