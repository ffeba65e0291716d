// Package upgrade brings a cluster to another version of K3s: it writes the version into the
// cluster's file and runs cluster:up.
package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/k3s"
)

// K3s writes a version into the cluster's file, after showing the line and being agreed to,
// and then does what cluster:up does.
func K3s(ctx context.Context, o session.Options, f session.UpgradeFlags) error {
	s, err := session.Load(o)
	if err != nil {
		return err
	}
	if err := rewrite(ctx, s, f); err != nil {
		return err
	}
	o.Start, o.MakeKey, o.Spec = true, true, s.Spec.File
	return session.Do(ctx, o, func(s *session.Session, ctx context.Context) error { return session.Up(s, ctx, f.UpFlags) })
}

// rewrite writes the version into the session's file, unless it is there already.
func rewrite(ctx context.Context, s *session.Session, f session.UpgradeFlags) error {
	if err := session.Lacks(s, "k3s:upgrade"); err != nil {
		return session.Invalid("%w", err)
	}
	file := s.Spec.File
	data, err := os.ReadFile(file)
	switch {
	case f.To == "":
		return session.Invalid("which version? write -to=VERSION, an exact release such as %s", k3s.DefaultVersion)
	case filepath.Dir(file) != filepath.Clean(s.Spec.Dir): // the example, which came with the program
		return session.Invalid("there is no %s here to write the version into: copy %s first", session.DefaultSpec, file)
	case err != nil:
		return session.Invalid("%w", err)
	case s.Spec.K3s.Version == f.To:
		s.Printf("%s says %s already.", file, f.To)
		return nil
	}
	e, err := withVersion(file, data, f.To)
	if err != nil {
		return session.Invalid("%w", err)
	}
	if err := k3s.CheckUpgrade(s.Spec.K3s.Version, f.To); err != nil {
		return session.Invalid("%w", err)
	}
	s.Printf("%s, line %d:", file, e.line)
	if e.was != "" {
		s.Printf("- %s", e.was)
	}
	s.Printf("+ %s", e.is)
	if !f.Yes {
		if err := s.Confirm(ctx, "Write this? [y/N] "); err != nil {
			return err
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if err := keep.WriteFile(file, e.data, info.Mode().Perm()); err != nil {
		return fmt.Errorf("%s stays as it is: %w; write version: %s under k3s: (line %d)", file, err, f.To, e.line)
	}
	return nil
}
