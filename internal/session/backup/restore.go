package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/session"
)

// Restore brings the cluster back to a backup, or to a snapshot that a server has.
func Restore(s *session.Session, ctx context.Context, f RestoreFlags) error {
	say := session.Change{
		ChangeFlags: f.ChangeFlags, Question: "Give up the present state of the cluster, and go back to this snapshot?", Name: s.Spec.Name,
		Done: "Kubernetes is as it was then. Next: go tool mage cluster:up, for what the file says and the snapshot does not have.",
	}
	if f.Snapshot != "" {
		if f.From != "" {
			return session.Invalid("%w", errors.New("-from and -snapshot are two snapshots: write one of them"))
		}
		return s.Change(ctx, func(ctx context.Context) (*converge.Graph, error) { return s.Cluster.RestoreSnapshot(ctx, f.Snapshot) }, say)
	}
	open, err := opener(f.SourceFlags)
	if err != nil {
		return err
	}
	is, facts, err := inspected(ctx, open) // before anything is stopped
	if err != nil {
		return err
	}
	s.AddSecrets(is.Token, is.AgentToken)
	if is.Cluster != s.Spec.Name {
		return session.Invalid("%w", fmt.Errorf("%s is a backup of %s, and the file is of %s: take the file of %s, or give the cluster that name", f.From, is.Cluster, s.Spec.Name, is.Cluster))
	}
	if !s.JSON {
		describe(s.Console, is, facts)
	}
	return s.Change(ctx, func(context.Context) (*converge.Graph, error) {
		return s.Cluster.Restore(is, func() (*backup.Reader, io.Closer, error) { return open() })
	}, say)
}
