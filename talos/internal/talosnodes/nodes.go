// Package talosnodes is Talos as the [distribution.Distribution] of a cluster: as far as it is there. What is not says
// so in its error: snapshots, a restore, another version, and the removal from a machine that stays.
package talosnodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/config"
	"github.com/cps-gpu/homelab/talos/internal/machine"
)

// Nodes are the machines of a cluster, for one run.
type Nodes struct {
	Spec       *spec.Spec
	Kubernetes string // its version, 1.36.2
	Bundle     *secrets.Bundle
	Installer  func(spec.Node) (string, error)
	Reach      func(spec.Node) *machine.Machine

	unsupported
}

// Facts implements [distribution.Distribution].
func (*Nodes) Facts() distribution.Facts {
	return distribution.Facts{Title: "Talos", Step: "talos", Server: "etcd", Agent: "kubelet"}
}

// Compare compares versions of kubelets, v1.36.2.
func (*Nodes) Compare(a, b string) int {
	x, err := semver.NewVersion(a)
	if err != nil {
		return -1
	}
	y, err := semver.NewVersion(b)
	if err != nil {
		return 1
	}
	return x.Compare(y)
}

// Observe implements [distribution.Distribution].
func (ns *Nodes) Observe(ctx context.Context, n spec.Node) (distribution.Member, error) {
	m := ns.Reach(n)
	seen, err := m.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return &member{nodes: ns, node: n, machine: m, seen: seen}, nil
}

// Claim does nothing: a machine is the cluster's by its secrets.
func (*Nodes) Claim(context.Context, spec.Node) error { return nil }

// Restart implements [distribution.Distribution].
func (ns *Nodes) Restart(ctx context.Context, n spec.Node, _ distribution.Admission) error {
	return ns.Reach(n).RestartKubelet(ctx)
}

// Admit says whether a server has the cluster. What it takes to join is in the configuration.
func (ns *Nodes) Admit(ctx context.Context, server string, _ spec.Node, _ time.Duration) (distribution.Admission, error) {
	_, err := ns.server(ctx, server)
	return distribution.Admission{}, err
}

// Revoke implements [distribution.ControlPlane].
func (*Nodes) Revoke(context.Context, string, distribution.Admission) error { return nil }

// Kubeconfig implements [distribution.ControlPlane].
func (ns *Nodes) Kubeconfig(ctx context.Context, server string) (secret.Value, error) {
	m, err := ns.server(ctx, server)
	if err != nil {
		return secret.Value{}, err
	}
	return m.Kubeconfig(ctx)
}

// server returns a server that has the cluster.
func (ns *Nodes) server(ctx context.Context, name string) (*machine.Machine, error) {
	n, ok := ns.Spec.Node(name)
	if !ok {
		return nil, fmt.Errorf("the file has no node %s", name)
	}
	m := ns.Reach(n)
	seen, err := m.Observe(ctx)
	switch {
	case err != nil:
		return nil, err
	case seen.Waits != "":
		return nil, errors.New(seen.Waits)
	case !seen.Etcd:
		return nil, fmt.Errorf("%s: %w", name, distribution.ErrNoCluster)
	}
	return m, nil
}

// Unwell implements [distribution.ControlPlane].
func (ns *Nodes) Unwell(ctx context.Context, server string) string {
	if _, err := ns.server(ctx, server); err != nil {
		return err.Error()
	}
	return ""
}

// Fill installs nothing: the image is complete. So nothing is fetched from here either.
func (*Nodes) Fill(context.Context, remote.Runner) error { return nil }

// TemplateRelease implements [distribution.Files].
func (*Nodes) TemplateRelease() string { return "" }

// URL implements [distribution.Files].
func (*Nodes) URL() string { return "" }

// CheckFiles implements [distribution.Files].
func (*Nodes) CheckFiles() error { return nil }

// CheckSums implements [distribution.Files].
func (*Nodes) CheckSums(context.Context) error { return nil }

func (ns *Nodes) wanted(n spec.Node, w distribution.Wish) (secret.Value, error) {
	installer, err := ns.Installer(n)
	if err != nil {
		return secret.Value{}, err
	}
	return config.Machine(config.Wish{Spec: ns.Spec, Node: n, Kubernetes: ns.Kubernetes, Installer: installer, ProviderID: w.ProviderID, Labels: w.Labels, Secrets: ns.Bundle})
}

var _ distribution.Distribution = (*Nodes)(nil)
