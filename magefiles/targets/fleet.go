package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/gitops"
)

// FleetLintOptions are the options of [FleetLint]; lists are separated by commas.
type FleetLintOptions struct{ gitops.LintFlags }

// FleetLint is fleet:lint.
func FleetLint(ctx context.Context, o FleetLintOptions) error {
	return ended(console.New(o.JSON), gitops.Lint(ctx, o.LintFlags))
}

// FleetRenderOptions are the options of [FleetRender].
type FleetRenderOptions struct {
	FileOptions
	Charts string `help:"FOLDER: take charts from here before any repository"`
	session.FleetRenderFlags
}

// FleetRender is fleet:render.
func FleetRender(ctx context.Context, o FleetRenderOptions) error {
	s := settings(o.FileOptions)
	s.Charts = o.Charts
	return within(ctx, s, func(ctx context.Context, s session.Options) error {
		return session.FleetRender(ctx, s, o.FleetRenderFlags)
	})
}

// FleetPushOptions are the options of [FleetPush].
type FleetPushOptions struct {
	FileOptions
	Charts string `help:"FOLDER: take charts from here before any repository"`
	session.FleetPushFlags
	LimitOptions
}

// FleetPush is fleet:push.
func FleetPush(ctx context.Context, o FleetPushOptions) error {
	s := settings(o.FileOptions, o.LimitOptions)
	s.Charts = o.Charts
	return withFlags(ctx, s, session.FleetPush, o.FleetPushFlags)
}

// FleetStatusOptions are the options of [FleetStatus].
type FleetStatusOptions struct {
	FileOptions
	gitops.StatusFlags
	OutputOptions
}

// FleetStatus is fleet:status.
func FleetStatus(ctx context.Context, o FleetStatusOptions) error {
	s := settings(o.FileOptions, o.OutputOptions)
	s.Timeout = o.Timeout
	return withFlags(ctx, s, gitops.Status, o.StatusFlags)
}
