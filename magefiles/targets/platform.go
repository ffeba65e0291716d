package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/examine"
	"github.com/cps-gpu/homelab/internal/session/gitops"
)

// PlatformPasswordsOptions are the options of [PlatformPasswords].
type PlatformPasswordsOptions struct {
	FileOptions
	session.PasswordsFlags
	OutputOptions
}

// PlatformPasswords is platform:passwords.
func PlatformPasswords(ctx context.Context, o PlatformPasswordsOptions) error {
	return withSessionFlags(ctx, settings(o), session.Passwords, o.PasswordsFlags)
}

// PlatformVerifyOptions are the options of [PlatformVerify].
type PlatformVerifyOptions struct {
	FileOptions
	examine.PlatformVerifyFlags
	OutputOptions
	LimitOptions
}

// PlatformVerify is platform:verify.
func PlatformVerify(ctx context.Context, o PlatformVerifyOptions) error {
	return withSessionFlags(ctx, settings(o), examine.PlatformVerify, o.PlatformVerifyFlags)
}

// HubOpenOptions are the options of [HubOpen].
type HubOpenOptions struct {
	FileOptions
	session.HubOpenFlags
}

// HubOpen is hub:open.
func HubOpen(ctx context.Context, o HubOpenOptions) error {
	return withSessionFlags(ctx, settings(o), session.HubOpen, o.HubOpenFlags)
}

// HubVerifyOptions are the options of [HubVerify].
type HubVerifyOptions struct {
	FileOptions
	session.HubVerifyFlags
	OutputOptions
	LimitOptions
	ReportOptions
}

// HubVerify is hub:verify.
func HubVerify(ctx context.Context, o HubVerifyOptions) error {
	return withReport(ctx, settings(o), "hub:verify", session.HubVerify, o.HubVerifyFlags)
}

// HubProfilesOptions are the options of [HubProfiles].
type HubProfilesOptions struct {
	FileOptions
	OutputOptions
}

// HubProfiles is hub:profiles.
func HubProfiles(ctx context.Context, o HubProfilesOptions) error {
	return withOptions(ctx, settings(o), func(_ context.Context, o session.Options) error {
		s, err := session.Load(o)
		if err != nil {
			return err
		}
		return session.HubProfiles(s)
	})
}

// ModelListOptions are the options of [ModelList].
type ModelListOptions struct {
	FileOptions
	OutputOptions
}

// ModelList is model:list.
func ModelList(ctx context.Context, o ModelListOptions) error {
	return withSession(ctx, settings(o), session.ModelList)
}

// ModelVerifyOptions are the options of [ModelVerify].
type ModelVerifyOptions struct {
	FileOptions
	session.ModelVerifyFlags
	OutputOptions
	LimitOptions
}

// ModelVerify is model:verify.
func ModelVerify(ctx context.Context, o ModelVerifyOptions) error {
	return withSessionFlags(ctx, settings(o), session.ModelVerify, o.ModelVerifyFlags)
}

// ModelUseOptions are the options of [ModelUse].
type ModelUseOptions struct {
	FileOptions
	session.ModelUseFlags
	OutputOptions
}

// ModelUse is model:use.
func ModelUse(ctx context.Context, o ModelUseOptions) error {
	return withSessionFlags(ctx, settings(o), session.ModelUse, o.ModelUseFlags)
}

// FleetLintOptions are the options of [FleetLint]; lists are separated by commas.
type FleetLintOptions struct{ gitops.LintFlags }

// FleetLint is fleet:lint.
func FleetLint(ctx context.Context, o FleetLintOptions) error {
	return commandError(console.New(o.JSON), gitops.Lint(ctx, o.LintFlags))
}

// ImagesListOptions are the options of [ImagesList].
type ImagesListOptions struct {
	FileOptions
	OutputOptions
	session.ChartFlags
	session.ImagesListFlags
}

// ImagesList is images:list.
func ImagesList(ctx context.Context, o ImagesListOptions) error {
	return withOptionsFlags(ctx, settings(o), session.ImagesList, o.ImagesListFlags)
}

// ImagesMirrorOptions are the options of [ImagesMirror].
type ImagesMirrorOptions struct {
	FileOptions
	LimitOptions
	session.ChartFlags
	session.ImagesMirrorFlags
}

// ImagesMirror is images:mirror.
func ImagesMirror(ctx context.Context, o ImagesMirrorOptions) error {
	return withOptionsFlags(ctx, settings(o), session.ImagesMirror, o.ImagesMirrorFlags)
}

// FleetRenderOptions are the options of [FleetRender].
type FleetRenderOptions struct {
	FileOptions
	Charts string `help:"FOLDER: take charts from here before any repository"`
	session.FleetRenderFlags
}

// FleetRender is fleet:render.
func FleetRender(ctx context.Context, o FleetRenderOptions) error {
	s := settings(o)
	s.Charts = o.Charts
	return withOptionsFlags(ctx, s, session.FleetRender, o.FleetRenderFlags)
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
	s := settings(o)
	s.Charts = o.Charts
	return withSessionFlags(ctx, s, session.FleetPush, o.FleetPushFlags)
}

// FleetStatusOptions are the options of [FleetStatus].
type FleetStatusOptions struct {
	FileOptions
	gitops.StatusFlags
	OutputOptions
}

// FleetStatus is fleet:status.
func FleetStatus(ctx context.Context, o FleetStatusOptions) error {
	s := settings(o)
	s.Timeout = o.Timeout
	return withSessionFlags(ctx, s, gitops.Status, o.StatusFlags)
}
