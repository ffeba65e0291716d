package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
)

// HostCheckOptions are the options of [HostCheck].
type HostCheckOptions struct {
	FileOptions
	session.HostFlags
	OutputOptions
}

// HostCheck is host:check. Its [Error] has the code 1 for warnings and 2 for errors.
func HostCheck(ctx context.Context, o HostCheckOptions) error {
	s := settings(o.FileOptions, o.OutputOptions)
	s.Start = true
	return within(ctx, s, func(ctx context.Context, s session.Options) error { return session.HostCheck(ctx, s, o.HostFlags) })
}

// HostPrepOptions are the options of [HostPrep].
type HostPrepOptions struct {
	FileOptions
	session.HostPrepFlags
	OutputOptions
}

// HostPrep is host:prep.
func HostPrep(ctx context.Context, o HostPrepOptions) error {
	return within(ctx, settings(o.FileOptions, o.OutputOptions), func(ctx context.Context, s session.Options) error {
		return session.HostPrep(ctx, s, o.HostPrepFlags)
	})
}

// HostRoleOptions are the options of [HostRole].
type HostRoleOptions struct {
	FileOptions
	session.HostRoleFlags
	OutputOptions
}

// HostRole is host:role.
func HostRole(ctx context.Context, o HostRoleOptions) error {
	return within(ctx, settings(o.FileOptions, o.OutputOptions), func(ctx context.Context, s session.Options) error {
		return session.HostRole(ctx, s, o.HostRoleFlags)
	})
}

// HostTrialOptions are the options of [HostTrial].
type HostTrialOptions struct {
	FileOptions
	session.HostTrialFlags
	OutputOptions
	LimitOptions
}

// HostTrial is host:trial.
func HostTrial(ctx context.Context, o HostTrialOptions) error {
	s := settings(o.FileOptions, o.OutputOptions, o.LimitOptions)
	s.Start, s.MakeKey = true, true
	return within(ctx, s, func(ctx context.Context, s session.Options) error { return session.HostTrial(ctx, s, o.HostTrialFlags) })
}
