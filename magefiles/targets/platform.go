package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
)

// PlatformPasswordsOptions are the options of [PlatformPasswords].
type PlatformPasswordsOptions struct {
	FileOptions
	session.PasswordsFlags
	OutputOptions
}

// PlatformPasswords is platform:passwords.
func PlatformPasswords(ctx context.Context, o PlatformPasswordsOptions) error {
	return withFlags(ctx, settings(o.FileOptions, o.OutputOptions), session.Passwords, o.PasswordsFlags)
}

// HubOpenOptions are the options of [HubOpen].
type HubOpenOptions struct {
	FileOptions
	session.HubOpenFlags
}

// HubOpen is hub:open.
func HubOpen(ctx context.Context, o HubOpenOptions) error {
	return withFlags(ctx, settings(o.FileOptions), session.HubOpen, o.HubOpenFlags)
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
	s := settings(o.FileOptions, o.OutputOptions, o.LimitOptions, o.ReportOptions)
	return withReport(ctx, s, "hub:verify", func(s *session.Session, ctx context.Context) error {
		return session.HubVerify(s, ctx, o.HubVerifyFlags)
	})
}

// HubProfilesOptions are the options of [HubProfiles].
type HubProfilesOptions struct {
	FileOptions
	OutputOptions
}

// HubProfiles is hub:profiles.
func HubProfiles(ctx context.Context, o HubProfilesOptions) error {
	return within(ctx, settings(o.FileOptions, o.OutputOptions), func(_ context.Context, o session.Options) error {
		s, err := session.Load(o)
		if err != nil {
			return err
		}
		return session.HubProfiles(s)
	})
}
