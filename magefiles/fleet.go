//go:build mage

package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Fleet is about GitOps by Rancher Fleet.
type Fleet mg.Namespace

// Lint says what is wrong in a Fleet repository, any, without a cluster; exit code 1 for errors. Flags: -dir=FOLDER -paths=A,B -repo=GITREPO -clusters=FILE|NAMES -elsewhere=BUNDLES -releases=NAMESPACE/NAME -charts=FOLDER -online -level=info|warning|error -json -sarif=FILE.
func (Fleet) Lint(ctx context.Context, dir, paths, repo, clusters, elsewhere, releases, charts, level, sarif *string, online, json *bool) error {
	if err := words(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(session.Lint(ctx, session.LintFlags{
		Dir: value(dir), Paths: value(paths), Repo: value(repo), Clusters: value(clusters), Elsewhere: value(elsewhere), Releases: value(releases),
		Charts: value(charts), SARIF: value(sarif), Level: value(level), Online: value(online), JSON: value(json),
	}))
}
