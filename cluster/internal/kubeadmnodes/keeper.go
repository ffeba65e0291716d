package kubeadmnodes

import (
	"context"
	"io"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// errBackup is of backups, and of what restores them.
func errBackup() error { return notYet("backs up or restores a cluster") }

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

// Secrets are refused.
func (ns *Nodes) Secrets(context.Context, string) (map[string]secret.Value, error) {
	return nil, errBackup()
}

// Key is refused.
func (ns *Nodes) Key(context.Context, string) (secret.Value, error) {
	return secret.Value{}, errBackup()
}

// Fetch is refused.
func (ns *Nodes) Fetch(context.Context, string, distribution.SavedSnapshot, io.Writer) error {
	return errBackup()
}

// Delete is refused.
func (ns *Nodes) Delete(context.Context, string, distribution.SavedSnapshot) error {
	return errBackup()
}

// Stop is refused.
func (ns *Nodes) Stop(context.Context, string, string) error { return errBackup() }

// Finish is refused.
func (ns *Nodes) Finish(context.Context, string) error { return errBackup() }

// Readmit is refused.
func (ns *Nodes) Readmit(context.Context, string, spec.Node) error { return errBackup() }

// SaveSnapshot is refused.
func (m *member) SaveSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{}, errBackup()
}

// FindSnapshot is refused.
func (m *member) FindSnapshot(context.Context, string) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{}, errBackup()
}

// Restore is refused.
func (m *member) Restore(context.Context, distribution.Wish, distribution.SavedSnapshot, secret.Value, io.Reader) error {
	return errBackup()
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
