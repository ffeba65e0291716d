package targets

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/gitops"
)

// Fleet is about GitOps by Rancher Fleet.
type Fleet mg.Namespace

// Lint finds mistakes in any Fleet repository, without a cluster; exit code 1 for errors.
func (Fleet) Lint(ctx context.Context,
	dir *string, // FOLDER: the repository, or a part of it; default: the current folder
	paths *string, // A,B: folders of bundles, as in spec.paths of the GitRepo
	repo *string, // GITREPO: name of the GitRepo
	clusters *string, // FILE|NAMES: a file with a list of {name, labels, groups}, or names
	elsewhere *string, // BUNDLES: names of bundles from other repositories
	releases *string, // NAMESPACE/NAME: Helm releases that the clusters have already
	charts *string, // FOLDER: take charts from here
	level *string, // info|warning|error: the least severe finding to show; default: warning
	sarif *string, // FILE: write the findings here, as SARIF
	online *bool, // ask the repositories of charts
	json *bool, // print findings as lines of JSON
) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(console.New(value(json)), gitops.Lint(ctx, gitops.LintFlags{
		Dir: value(dir), Paths: value(paths), Repo: value(repo), Clusters: value(clusters),
		Elsewhere: value(elsewhere), Releases: value(releases),
		Charts: value(charts), SARIF: value(sarif), Level: value(level), Online: value(online), JSON: value(json),
	}))
}

// Render writes the GitOps folder of the parts that are deployed through Git, from the file alone; -live also asks the cluster. Other files stay.
func (Fleet) Render(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	out *string, // FOLDER: the folder to write; default: fleet
	charts *string, // FOLDER: take charts from here before any repository
	force *bool, // overwrite files that were changed by hand
	live *bool, // ask the cluster too, for what only the cluster knows
) error {
	o := options(spec, nil, nil)
	o.Charts = value(charts)
	flags := session.FleetRenderFlags{Out: value(out), Force: value(force), Live: value(live)}
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return session.FleetRender(ctx, o, flags) })
}

// Push commits that folder to the Git repository of the file, and never overwrites changes of others. It asks before it removes files whose objects Fleet would then delete.
func (Fleet) Push(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	force *bool, // overwrite files that were changed by hand
	yes *bool, // do not ask: agree to everything that is shown
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, nil, timeout)
	o.Charts = value(charts)
	return withFlags(ctx, o, (*session.Session).FleetPush, session.FleetPushFlags{ChangeFlags: changes(yes, nowait), Force: value(force)})
}

// Status shows how far Fleet has deployed the last commit, problems first; with -timeout it waits until everything is deployed; exit code 2 if something is missing.
func (Fleet) Status(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // 15m: wait until everything is deployed, at most this long
) error {
	return withFlags(ctx, options(spec, json, timeout), gitops.Status, gitops.StatusFlags{Timeout: value(timeout)})
}
