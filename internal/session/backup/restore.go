package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Restore brings the cluster back to a backup, or to a snapshot that a server has.
func Restore(s *session.Session, ctx context.Context, f RestoreFlags) error {
	if err := session.Lacks(s, "cluster:restore"); err != nil {
		return session.Invalid("%w", err)
	}
	say := session.Change{
		ChangeFlags: f.ChangeFlags, Question: "Give up the present state of the cluster, and go back to this snapshot?", Name: s.Spec.Name,
		Done: "Kubernetes is as it was then. Next: homelab cluster:up, for what the file says and the snapshot does not have.",
	}
	if f.Snapshot != "" {
		if f.From != "" {
			return session.Invalid("%w", errors.New("-from and -snapshot are two snapshots: write one of them"))
		}
		return s.Change(ctx, func(ctx context.Context) (*converge.Graph, error) { return s.Cluster.RestoreSnapshot(ctx, f.Snapshot) }, say)
	}
	if f.Digest != "" {
		if err := compareDigest(f.From, f.Digest); err != nil {
			return err
		}
	}
	open, err := opener(f.SourceFlags)
	if err != nil {
		return err
	}
	is, facts, err := inspect(ctx, open) // before anything is stopped
	if err != nil {
		return err
	}
	s.AddSecrets(is.Token, is.AgentToken)
	if is.Cluster != s.Spec.Name {
		return session.Invalid("%w", fmt.Errorf("%s is a backup of %s, and the file is of %s: take the file of %s, or give the cluster that name", f.From, is.Cluster, s.Spec.Name, is.Cluster))
	}
	maker, known, err := backupOrigin(ctx, s, is, f)
	if err != nil {
		return err
	}
	if !s.JSON {
		describe(s.Console, is, facts, maker)
	}
	if !known && f.Yes {
		return session.RefusedError("nothing was changed: %s: %s: add -digest= with the SHA-256 that cluster:backup printed, or restore without -yes", f.From, maker)
	}
	if !known {
		say.Question = "Its maker, who is not known, gets root on the servers. " + say.Question
	}
	return s.Change(ctx, func(context.Context) (*converge.Graph, error) {
		return s.Cluster.Restore(is, func() (*backup.Reader, io.Closer, error) { return open() })
	}, say)
}

// unsigned is what can be said of the maker of a backup without a signature.
const unsigned = "nobody can know: it is not signed, and anyone who has a recipient's public key can make one"

// backupOrigin says who made a backup, and whether that is known: by its signature, or by its digest,
// which was compared.
func backupOrigin(ctx context.Context, s *session.Session, is backup.Contents, f RestoreFlags) (who string, known bool, err error) {
	ours, err := s.Cluster.IsTrustedKey(ctx, is.Maker)
	switch who = maker(is); {
	case err != nil:
		return "", false, err
	case ours:
		return who + ", a key of this cluster", true, nil
	case f.Digest != "":
		return who + "; it is the file of -digest", true, nil
	case is.Maker != nil:
		who += ", no key of this cluster (the keys of this run, and ssh.publicKeys)"
	}
	return who, false, nil
}

func maker(is backup.Contents) string {
	if is.Maker == nil {
		return unsigned
	}
	return "signed with " + ssh.Fingerprint(is.Maker)
}

// compareDigest compares a file with the digest that cluster:backup printed.
func compareDigest(path, want string) error {
	file, err := os.Open(path)
	if err != nil {
		return session.Invalid("%w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if have := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(have, want) {
		return session.Invalid("%w", fmt.Errorf("%s has the SHA-256 %s, not that of -digest: it is another file", path, have))
	}
	return nil
}
