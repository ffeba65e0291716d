package talosnodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
)

// Secrets implements [distribution.Keeper]: those beside the file. No machine is asked.
func (ns *Nodes) Secrets(ctx context.Context, server string) (map[string]secret.Value, error) {
	key, err := ns.Key(ctx, server)
	return map[string]secret.Value{distribution.Authorities: key}, err
}

// Key implements [distribution.Keeper]: a snapshot is worth nothing without the secrets.
func (ns *Nodes) Key(context.Context, string) (secret.Value, error) {
	b, err := ns.keeper.read(ns.Site)
	switch {
	case err != nil:
		return secret.Value{}, err
	case b == nil:
		return secret.Value{}, fmt.Errorf("%s.secrets.age is not there: %w", ns.Spec.Name, distribution.ErrNoCluster)
	}
	return secrets.Authorities(b)
}

// CheckKey implements [distribution.KeyChecker].
func (ns *Nodes) CheckKey(key secret.Value) error {
	b, err := ns.keeper.read(ns.Site)
	if err != nil {
		return err
	}
	name := ns.Spec.Name + ".secrets.age"
	if b == nil {
		return fmt.Errorf("%s is not there, so no machine has secrets yet: bring it back from Git or from the backup (docs/talos.md), and run homelab cluster:up first", name)
	}
	err = secrets.Compare(b, key)
	if errors.Is(err, secrets.ErrOthers) {
		return fmt.Errorf("%w: nothing was changed: bring back the %s that the cluster had then, from Git or from the backup (docs/talos.md), and make the machines again with it", err, name)
	}
	return err
}

// SaveSnapshot implements [distribution.Member]. The snapshot is on this computer.
func (m *member) SaveSnapshot(ctx context.Context, prefix string) (distribution.SavedSnapshot, error) {
	name, err := m.nodes.Save(ctx, m.node.Name, prefix)
	if err != nil {
		return distribution.SavedSnapshot{}, err
	}
	return m.FindSnapshot(ctx, name)
}

// FindSnapshot implements [distribution.Member]: on this computer, whichever server it is of.
func (m *member) FindSnapshot(_ context.Context, name string) (s distribution.SavedSnapshot, err error) {
	if !filepath.IsLocal(name) || name != filepath.Base(name) {
		return s, fmt.Errorf("%.80q is not the name of a snapshot", name)
	}
	place := filepath.Join(m.nodes.snapshots(), name)
	f, err := os.Open(place)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s has no snapshot of that name", m.nodes.snapshots())
	}
	if err != nil {
		return s, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	return distribution.SavedSnapshot{Name: name, Place: place, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, errors.Join(err, f.Close())
}

// Fetch implements [distribution.Keeper].
func (ns *Nodes) Fetch(_ context.Context, _ string, s distribution.SavedSnapshot, w io.Writer) error {
	f, err := os.Open(s.Place)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// Delete implements [distribution.Keeper].
func (ns *Nodes) Delete(_ context.Context, _ string, s distribution.SavedSnapshot) error {
	return ignoreAbsent(os.Remove(s.Place))
}
