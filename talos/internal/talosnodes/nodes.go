// Package talosnodes is Talos as the [distribution.Distribution] of a cluster: as far as it is there. What is not says
// so in its error: new certificates, and the removal from a machine that stays.
package talosnodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/config"
	"github.com/cps-gpu/homelab/talos/internal/image"
	"github.com/cps-gpu/homelab/talos/internal/machine"
	"github.com/cps-gpu/homelab/talos/internal/seed"
)

// Nodes are the machines of a cluster, for one run.
type Nodes struct {
	distribution.Site
	keeper *Keeper

	unsupported
}

// New returns the machines of a site, with what keeper has of the cluster.
func New(site distribution.Site, keeper *Keeper) *Nodes { return &Nodes{Site: site, keeper: keeper} }

// reach is a machine with the secrets of the cluster. If there are none yet, only a machine without configuration can be
// asked.
func (ns *Nodes) reach(n spec.Node) (*machine.Machine, error) {
	b, err := ns.keeper.read(ns.Site)
	return ns.machine(n, b), err
}

func (ns *Nodes) machine(n spec.Node, b *secrets.Bundle) *machine.Machine {
	return &machine.Machine{Name: n.Name, Address: n.Address.Addr(), Secrets: b, Dial: ns.Dial,
		Log: func(ctx context.Context, count int) ([]byte, error) {
			return ns.ReadStart(ctx, n.Name, machine.Kmsg, count)
		}}
}

// Open implements [distribution.Opener]: the secrets are on the disk before the first machine gets its configuration.
func (ns *Nodes) Open(ctx context.Context) error {
	var servers []*machine.Machine
	for _, n := range ns.Spec.Servers() {
		servers = append(servers, ns.machine(n, nil))
	}
	return ns.keeper.open(ctx, ns.Site, machine.Running(servers, nil))
}

// Port implements [distribution.Imager].
func (*Nodes) Port() string { return machine.Port }

// FirstBoot implements [distribution.Imager].
func (*Nodes) FirstBoot(m cloudinit.Machine) (cloudinit.NoCloud, error) { return seed.Render(m) }

// ImageURL implements [distribution.Imager].
func (ns *Nodes) ImageURL(n spec.Node) (string, error) {
	return image.For(ns.Spec, n).Disk(ns.Spec.Talos.Version)
}

// Image implements [distribution.Imager].
func (ns *Nodes) Image(ctx context.Context, n spec.Node) (spec.CloudImage, error) {
	url, err := ns.ImageURL(n)
	if err != nil {
		return spec.CloudImage{}, err
	}
	sum, err := ns.keeper.sum(ctx, ns.Spec, image.For(ns.Spec, n), url)
	return spec.CloudImage{URL: url, SHA256: sum}, err
}

// Facts implements [distribution.Distribution].
func (ns *Nodes) Facts() distribution.Facts {
	return distribution.Facts{Title: "Talos", Program: "Kubernetes", Step: "talos", Server: "etcd", Agent: "kubelet", Saves: ns.snapshots(), Images: "talosctl image k8s-bundle", Wipes: true, Lacks: map[string]error{
		"k3s:upgrade":           errors.New("k3s:upgrade writes k3s.version, and clusters of Talos machines have none: write talos.version or talos.kubernetes, and run homelab cluster:up"),
		"cluster:certs -rotate": notYet("renews certificates: talosctl rotate-ca does"),
	}}
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
	m, err := ns.reach(n)
	if err != nil {
		return nil, err
	}
	seen, err := m.Observe(ctx)
	if errors.Is(err, machine.ErrForeign) {
		err = distribution.Means(err, distribution.ErrForeign)
	}
	if err != nil {
		return nil, err
	}
	return &member{nodes: ns, node: n, machine: m, seen: seen}, nil
}

// Claim does nothing: a machine is the cluster's by its secrets.
func (*Nodes) Claim(context.Context, spec.Node) error { return nil }

// Restart implements [distribution.Distribution].
func (ns *Nodes) Restart(ctx context.Context, n spec.Node, _ distribution.Admission) error {
	m, err := ns.reach(n)
	if err != nil {
		return err
	}
	return m.RestartKubelet(ctx)
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
	m, err := ns.reach(n)
	if err != nil {
		return nil, err
	}
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

// Forget implements [distribution.Forgetter].
func (ns *Nodes) Forget(ctx context.Context, node string) error {
	var errs []error
	for _, n := range ns.Spec.Servers() {
		if n.Name == node {
			continue
		}
		m, err := ns.server(ctx, n.Name)
		if err == nil {
			return m.Forget(ctx, node)
		}
		if !errors.Is(err, distribution.ErrNoCluster) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
	installer, err := image.For(ns.Spec, n).Installer(ns.Spec.Talos.Version)
	if err != nil {
		return secret.Value{}, err
	}
	b, err := ns.keeper.read(ns.Site)
	if err == nil && b == nil { // a plan writes nothing, and what a machine would get is not known without them
		err = errors.New("the cluster has no secrets yet")
	}
	if err != nil {
		return secret.Value{}, err
	}
	return config.Machine(config.Wish{Spec: ns.Spec, Node: n, Kubernetes: strings.TrimPrefix(ns.Spec.K3s.Version, "v"), Installer: installer,
		ProviderID: w.ProviderID, Labels: w.Labels, Secrets: b})
}

var (
	_ distribution.Distribution = (*Nodes)(nil)
	_ distribution.Imager       = (*Nodes)(nil)
	_ distribution.Opener       = (*Nodes)(nil)
	_ distribution.Forgetter    = (*Nodes)(nil)
	_ distribution.KeyChecker   = (*Nodes)(nil)
)
