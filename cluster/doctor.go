package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Doctor returns where [doctor.Examine] looks for the cause of a failure of this cluster.
func (c *Cluster) Doctor() doctor.Sources {
	f := c.site.flow()
	s := doctor.Sources{Spec: f.spec, Root: f.nodes.Root, Kubernetes: f.kubernetesOn, Certificates: f.certificatesOn, HasDriver: f.members.HasDriver, Kube: f.members.Kube}
	if f.Proxmox == nil {
		return s
	}
	s.Proxmox = f.Proxmox
	s.VM = func(ctx context.Context, name string) (*proxmox.VM, error) {
		return f.Proxmox.VMs.Get(ctx, names.Tag(f.spec), name)
	}
	s.Cards = f.brokenCards
	return s
}

// kubernetesOn looks at what a machine has of Kubernetes.
func (c *site) kubernetesOn(ctx context.Context, n spec.Node) (doctor.Kubernetes, error) {
	d := c.distribution()
	have, err := d.Observe(ctx, n)
	if err != nil {
		return doctor.Kubernetes{}, err
	}
	s := have.State()
	return doctor.Kubernetes{
		Role: s.Role, Version: s.Version, Running: s.Running, Service: d.Facts().Service(s.Role), Active: s.Active, Ended: s.Ended,
		Cause: s.Fault.Cause, Cure: s.Fault.Cure, Line: s.Fault.Line,
	}, nil
}

func (c *site) certificatesOn(ctx context.Context, n spec.Node) (out []doctor.Certificate, err error) {
	all, err := c.distribution().Certificates(ctx, n.Name)
	for _, of := range all {
		out = append(out, doctor.Certificate{File: of.File, Subject: of.Subject, Authority: of.Authority, Until: of.Until})
	}
	return out, err
}

// brokenCards lists the cards of each host that this cluster has and cannot use as they are.
func (c *cards) brokenCards(ctx context.Context) (map[string][]doctor.Card, error) {
	all, err := c.gpus(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string][]doctor.Card{}
	for _, g := range all {
		if g.Problem != "" && (g.State == GPUConflict || g.State == GPUOurs) {
			out[g.Host] = append(out[g.Host], doctor.Card{Address: g.Address, Model: g.Model, Node: g.Node, Problem: g.Problem})
		}
	}
	return out, nil
}
