package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// LabStartOptions are the options of [LabStart]: there are none.
type LabStartOptions struct{}

// LabStart is lab:start.
func LabStart(ctx context.Context, _ LabStartOptions) error {
	return ended(console.New(false), session.Interrupted(ctx, session.LabStart(ctx)))
}

// LabStatusOptions are the options of [LabStatus].
type LabStatusOptions struct{ session.LabStatusFlags }

// LabStatus is lab:status.
func LabStatus(ctx context.Context, o LabStatusOptions) error {
	return ended(console.New(o.JSON), session.LabStatus(ctx, o.LabStatusFlags))
}

// LabStopOptions are the options of [LabStop]: there are none.
type LabStopOptions struct{}

// LabStop is lab:stop.
func LabStop(ctx context.Context, _ LabStopOptions) error {
	return ended(console.New(false), session.LabStop(ctx))
}
