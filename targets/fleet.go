package targets

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Fleet is about GitOps by Rancher Fleet.
type Fleet mg.Namespace

// Lint finds mistakes in any Fleet repository, without a cluster; exit code 1 for errors. Flags: -dir=FOLDER -paths=A,B -repo=GITREPO -clusters=FILE|NAMES -elsewhere=BUNDLES -releases=NAMESPACE/NAME -charts=FOLDER -online -level=info|warning|error -json -sarif=FILE.
func (Fleet) Lint(ctx context.Context, dir, paths, repo, clusters, elsewhere, releases, charts, level, sarif *string, online, json *bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(console.New(value(json)), session.Lint(ctx, session.LintFlags{
		Dir: value(dir), Paths: value(paths), Repo: value(repo), Clusters: value(clusters), Elsewhere: value(elsewhere), Releases: value(releases),
		Charts: value(charts), SARIF: value(sarif), Level: value(level), Online: value(online), JSON: value(json),
	}))
}

// Render writes the GitOps folder of the parts that are deployed through Git, from the file alone; -live also asks the cluster. Other files stay. Flags: -spec=FILE -out=FOLDER (default ./fleet) -charts=FOLDER -force -live.
func (Fleet) Render(ctx context.Context, spec, out, charts *string, force, live *bool) error {
	o := options(spec, nil, nil, nil)
	o.Out, o.Charts, o.Force = value(out), value(charts), value(force)
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return session.FleetRender(ctx, o, value(live)) })
}

// Push commits that folder to the Git repository of the file, and never overwrites changes of others. It asks before it removes files whose objects Fleet would then delete. Flags: -spec=FILE -charts=FOLDER -force -yes -nowait -timeout=5m.
func (Fleet) Push(ctx context.Context, spec, charts *string, force, yes, nowait *bool, timeout *time.Duration) error {
	o := options(spec, nil, yes, timeout)
	o.Charts, o.Force, o.NoWait = value(charts), value(force), value(nowait)
	return with(ctx, o, (*session.Session).FleetPush)
}

// Status shows how far Fleet has deployed the last commit, problems first; with -timeout it waits until everything is deployed; exit code 2 if something is missing. Flags: -spec=FILE -json -timeout=15m.
func (Fleet) Status(ctx context.Context, spec *string, json *bool, timeout *time.Duration) error {
	return with(ctx, options(spec, json, nil, timeout), (*session.Session).FleetStatus)
}
