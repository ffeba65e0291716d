package k3snodes

import (
	"context"
	"errors"
	"io"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

// Secrets are the two tokens and K3s' configuration.
func (ns *Nodes) Secrets(ctx context.Context, server string) (map[string]secret.Value, error) {
	root := ns.root(server)
	token, err := k3s.Token(ctx, root)
	if err != nil {
		return nil, err
	}
	agent, err := k3s.AgentToken(ctx, root)
	if err != nil {
		return nil, err
	}
	config, err := remote.ReadFile(ctx, root, "/etc/rancher/k3s/config.yaml")
	return map[string]secret.Value{"token": token, "agent-token": agent, "config.yaml": secret.New(string(config))}, err
}

// Key is the cluster's token, also where a restore was cut short after it had laid the token aside.
func (ns *Nodes) Key(ctx context.Context, server string) (secret.Value, error) {
	token, err := k3s.TokenBeforeRestore(ctx, ns.root(server))
	if err != nil {
		return k3s.Token(ctx, ns.root(server))
	}
	return token, nil
}

func savedSnapshot(s k3s.Snapshot, err error) (distribution.SavedSnapshot, error) {
	return distribution.SavedSnapshot{Name: s.Name(), Place: s.Path, Size: s.Size, SHA256: s.SHA256}, err
}

// SaveSnapshot saves etcd where K3s on this server saves it.
func (m *member) SaveSnapshot(ctx context.Context, prefix string) (distribution.SavedSnapshot, error) {
	return savedSnapshot(k3s.SaveSnapshot(ctx, m.root(m.node.Name), m.have, prefix))
}

// FindSnapshot looks where K3s on this server saves snapshots.
func (m *member) FindSnapshot(ctx context.Context, name string) (distribution.SavedSnapshot, error) {
	return savedSnapshot(k3s.FindSnapshot(ctx, m.root(m.node.Name), m.have, name))
}

// Restore makes etcd of a snapshot. Its key is the token that the cluster had when it was taken.
func (m *member) Restore(ctx context.Context, w distribution.Wish, s distribution.SavedSnapshot, key secret.Value, r io.Reader) error {
	srv, err := m.Server(m.node, w)
	if err != nil {
		return err
	}
	err = k3s.RestoreServer(ctx, m.root(m.node.Name), srv, k3s.Restore{Name: s.Name, Size: s.Size, SHA256: s.SHA256, Token: key}, r)
	if errors.Is(err, k3s.ErrRestoreToken) {
		return distribution.Means(err, distribution.ErrKey)
	}
	return err
}

// Fetch writes a snapshot to w.
func (ns *Nodes) Fetch(ctx context.Context, server string, s distribution.SavedSnapshot, w io.Writer) error {
	return k3s.Snapshot{Path: s.Place}.Fetch(ctx, ns.root(server), w)
}

// Delete removes a snapshot from a server, and its copy from the bucket.
func (ns *Nodes) Delete(ctx context.Context, server string, s distribution.SavedSnapshot) error {
	return k3s.Snapshot{Path: s.Place}.Delete(ctx, ns.root(server))
}

// Stop stops K3s on a server for a restore.
func (ns *Nodes) Stop(ctx context.Context, server, what string) error {
	return k3s.StopForRestore(ctx, ns.root(server), what)
}

// Finish lets K3s on a server start by itself again.
func (ns *Nodes) Finish(ctx context.Context, server string) error {
	return k3s.FinishRestore(ctx, ns.root(server))
}

// Readmit gives an agent the restored cluster's token.
func (ns *Nodes) Readmit(ctx context.Context, by string, n spec.Node) error {
	token, err := k3s.AgentToken(ctx, ns.root(by))
	if err != nil {
		return err
	}
	return k3s.UseToken(ctx, ns.root(n.Name), token)
}

// Certificates reads K3s' certificates on a machine.
func (ns *Nodes) Certificates(ctx context.Context, node string) ([]distribution.Certificate, error) {
	all, err := k3s.Certificates(ctx, ns.root(node))
	var out []distribution.Certificate
	for _, c := range all {
		out = append(out, distribution.Certificate(c))
	}
	return out, err
}

// Rotate makes new certificates for K3s on a machine.
func (ns *Nodes) Rotate(ctx context.Context, n spec.Node) error {
	role := k3s.RoleServer
	if n.Role == spec.Agent {
		role = k3s.RoleAgent
	}
	return k3s.RotateCertificates(ctx, ns.root(n.Name), role)
}
