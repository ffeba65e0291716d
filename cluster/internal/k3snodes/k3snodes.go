// Package k3snodes is K3s as the [distribution.Distribution] of a cluster.
package k3snodes

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
)

// Nodes is K3s on the machines of a cluster.
type Nodes struct {
	spec *spec.Spec
	root func(node string) remote.Runner
}

// New returns the K3s of a cluster whose machines root reaches.
func New(s *spec.Spec, root func(node string) remote.Runner) *Nodes { return &Nodes{s, root} }

// Facts returns what K3s is called.
func (ns *Nodes) Facts() distribution.Facts {
	return distribution.Facts{Title: "K3s", Step: "k3s", Server: k3s.RoleServer.Unit(), Agent: k3s.RoleAgent.Unit()}
}

// Compare compares two releases of K3s.
func (ns *Nodes) Compare(a, b string) int { return k3s.CompareVersions(a, b) }

// CheckUpgrade says why K3s on a machine cannot go from a version to that of the file.
func (ns *Nodes) CheckUpgrade(from string) error { return k3s.CheckUpgrade(from, ns.spec.K3s.Version) }

// Claim writes the mark that K3s on a machine is this cluster's.
func (ns *Nodes) Claim(ctx context.Context, n spec.Node) error {
	return remote.WriteFile(ctx, ns.root(n.Name), k3s.ClusterFile, []byte(ns.spec.Name+"\n"), 0o644)
}

// Restart restarts K3s. With an admission, an agent joins again whose Node is gone.
func (ns *Nodes) Restart(ctx context.Context, n spec.Node, a distribution.Admission) error {
	if !a.Value.IsZero() {
		return k3s.Rejoin(ctx, ns.root(n.Name), a.Value)
	}
	return remote.Run(ctx, ns.root(n.Name), "systemctl", "restart", ns.Facts().Service(n.Role))
}

// Remove removes K3s with all its data.
func (ns *Nodes) Remove(ctx context.Context, n spec.Node) error {
	return k3s.Remove(ctx, ns.root(n.Name))
}
