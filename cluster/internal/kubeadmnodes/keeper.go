package kubeadmnodes

import (
	"context"
	"errors"
	"io"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Snapshots are those before upgrades.
func (ns *Nodes) Snapshots(ctx context.Context, server string) ([]distribution.Snapshot, error) {
	all, err := kubeadm.Snapshots(ctx, ns.root(server))
	var out []distribution.Snapshot
	for _, s := range all {
		out = append(out, distribution.Snapshot(s))
	}
	return out, err
}

// Save saves one.
func (ns *Nodes) Save(ctx context.Context, server, prefix string) (string, error) {
	s, err := kubeadm.SaveSnapshot(ctx, ns.root(server), prefix, server)
	return s.Name, err
}

// Secrets are the authorities, and what the server was set up with, which is none.
func (ns *Nodes) Secrets(ctx context.Context, server string) (map[string]secret.Value, error) {
	authorities, err := kubeadm.Authorities(ctx, ns.root(server))
	if err != nil {
		return nil, err
	}
	config, err := remote.ReadFile(ctx, ns.root(server), "/etc/kubernetes/homelab/agreed.yaml")
	return map[string]secret.Value{distribution.Authorities: authorities, "config.yaml": secret.New(string(config))}, err
}

// Key is the authorities: a snapshot is worth nothing without them.
func (ns *Nodes) Key(ctx context.Context, server string) (secret.Value, error) {
	return kubeadm.Authorities(ctx, ns.root(server))
}

// Fetch writes a snapshot to w.
func (ns *Nodes) Fetch(ctx context.Context, server string, s distribution.SavedSnapshot, w io.Writer) error {
	return kubeadm.File{Path: s.Place}.Fetch(ctx, ns.root(server), w)
}

// Delete removes a snapshot from a server.
func (ns *Nodes) Delete(ctx context.Context, server string, s distribution.SavedSnapshot) error {
	return kubeadm.File{Path: s.Place}.Delete(ctx, ns.root(server))
}

// Stop stops a server for a restore. One that joins the restored cluster is not stopped a second time for that: etcd
// would count its member, and have too few left that work.
func (ns *Nodes) Stop(ctx context.Context, server, what string) error {
	return kubeadm.StopForRestore(ctx, ns.root(server), ns.spec.K3s.Version, what, server != ns.spec.Servers()[0].Name)
}

// Finish lets a server start by itself again.
func (ns *Nodes) Finish(ctx context.Context, server string) error {
	return kubeadm.FinishRestore(ctx, ns.root(server))
}

// Readmit restarts an agent, which joins again if the restored cluster has another authority than the one it was in.
func (ns *Nodes) Readmit(ctx context.Context, by string, n spec.Node) (err error) {
	have, err := kubeadm.Observe(ctx, ns.root(n.Name))
	if err != nil {
		return err
	}
	server, err := kubeadm.Observe(ctx, ns.root(by))
	if err != nil {
		return err
	}
	if have.Joined && !have.Starting && have.Authority == server.Authority {
		return ns.Restart(ctx, n, distribution.Admission{})
	}
	if !have.Starting { // the snapshot may know it as Ready, and kubeadm refuses the name of such a Node
		if err := kubeadm.DeleteNode(ctx, ns.root(by), n.Name); err != nil {
			return err
		}
	}
	t, err := kubeadm.CreateToken(ctx, ns.root(by), run.Limit(ns.spec, serverTime), ns.describe(n))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.revoke(ctx, by, t)) }()
	m := member{ns, n, have}
	node := m.nodeOf(n, distribution.Wish{ProviderID: have.ProviderID(), Labels: have.Labels()})
	if have.Joined && have.Authority == server.Authority { // its start was cut short
		return kubeadm.Join(ctx, ns.root(n.Name), ns.clusterOf(), node, t)
	}
	return kubeadm.Rejoin(ctx, ns.root(n.Name), ns.clusterOf(), node, t)
}

func savedFile(name string, f kubeadm.File, err error) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{Name: name, Place: f.Path, Size: f.Size, SHA256: f.SHA256}, err
}

// SaveSnapshot saves etcd on this server.
func (m *member) SaveSnapshot(ctx context.Context, prefix string) (distribution.SavedSnapshot, error) {
	s, err := kubeadm.SaveSnapshot(ctx, m.root(m.node.Name), prefix, m.node.Name)
	if err != nil {
		return distribution.SavedSnapshot{}, err
	}
	return m.FindSnapshot(ctx, s.Name)
}

// FindSnapshot looks for a snapshot on this server.
func (m *member) FindSnapshot(ctx context.Context, name string) (distribution.SavedSnapshot, error) {
	f, err := kubeadm.FindSnapshot(ctx, m.root(m.node.Name), name)
	return savedFile(name, f, err)
}

// Restore makes etcd of a snapshot, with the authorities that its cluster had.
func (m *member) Restore(ctx context.Context, w distribution.Wish, s distribution.SavedSnapshot, key secret.Value, r io.Reader) error {
	return kubeadm.RestoreServer(ctx, m.root(m.node.Name), m.clusterOf(), m.nodeOf(m.node, w), kubeadm.Restore{Size: s.Size, SHA256: s.SHA256, Authorities: key}, r)
}

// Certificates reads those on a machine.
func (ns *Nodes) Certificates(ctx context.Context, node string) ([]distribution.Certificate, error) {
	all, err := kubeadm.Certificates(ctx, ns.root(node))
	var out []distribution.Certificate
	for _, c := range all {
		out = append(out, distribution.Certificate(c))
	}
	return out, err
}

// Rotate renews those of a server. An agent has none but kubelet's, which kubelet renews.
func (ns *Nodes) Rotate(ctx context.Context, n spec.Node) error {
	return kubeadm.RenewCertificates(ctx, ns.root(n.Name))
}

// Fill installs nothing in a template: each node installs the packages.
func (ns *Nodes) Fill(context.Context, remote.Runner) error { return nil }

// TemplateRelease is none.
func (ns *Nodes) TemplateRelease() string { return "" }

// URL is none: machines download packages, this computer nothing.
func (ns *Nodes) URL() string { return "" }

// CheckFiles has none to check.
func (ns *Nodes) CheckFiles() error { return nil }

// CheckSums has none to check.
func (ns *Nodes) CheckSums(context.Context) error { return nil }
