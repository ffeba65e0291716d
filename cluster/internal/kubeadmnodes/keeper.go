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

// errBackup is of all that needs snapshots of etcd.
func errBackup() error { return notYet("saves or restores etcd") }

// Snapshots are none.
func (ns *Nodes) Snapshots(context.Context, string) ([]distribution.Snapshot, error) { return nil, nil }

// Save is refused.
func (ns *Nodes) Save(context.Context, string, string) (string, error) { return "", errBackup() }

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

// Rotate is refused.
func (ns *Nodes) Rotate(context.Context, spec.Node) error { return notYet("renews certificates") }

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
