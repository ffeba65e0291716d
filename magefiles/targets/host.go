package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/console"
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
	s := settings(o)
	s.Start = true
	return withOptionsFlags(ctx, s, session.HostCheck, o.HostFlags)
}

// HostPrepOptions are the options of [HostPrep].
type HostPrepOptions struct {
	FileOptions
	session.HostPrepFlags
	OutputOptions
}

// HostPrep is host:prep.
func HostPrep(ctx context.Context, o HostPrepOptions) error {
	return withOptionsFlags(ctx, settings(o), session.HostPrep, o.HostPrepFlags)
}

// HostRoleOptions are the options of [HostRole].
type HostRoleOptions struct {
	FileOptions
	session.HostRoleFlags
	OutputOptions
}

// HostRole is host:role.
func HostRole(ctx context.Context, o HostRoleOptions) error {
	return withOptionsFlags(ctx, settings(o), session.HostRole, o.HostRoleFlags)
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
	s := settings(o)
	s.Start, s.MakeKey = true, true
	return withOptionsFlags(ctx, s, session.HostTrial, o.HostTrialFlags)
}

// LabStartOptions are the options of [LabStart]: there are none.
type LabStartOptions struct{}

// LabStart is lab:start.
func LabStart(ctx context.Context, _ LabStartOptions) error {
	return commandError(console.New(false), session.InterruptionError(ctx, session.LabStart(ctx)))
}

// LabStatusOptions are the options of [LabStatus].
type LabStatusOptions struct{ session.LabStatusFlags }

// LabStatus is lab:status.
func LabStatus(ctx context.Context, o LabStatusOptions) error {
	return commandError(console.New(o.JSON), session.LabStatus(ctx, o.LabStatusFlags))
}

// LabStopOptions are the options of [LabStop]: there are none.
type LabStopOptions struct{}

// LabStop is lab:stop.
func LabStop(ctx context.Context, _ LabStopOptions) error {
	return commandError(console.New(false), session.LabStop(ctx))
}
