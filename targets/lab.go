package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// Lab is the simulated Proxmox host, with the Kubernetes in its VMs.
type Lab mg.Namespace

// Start builds the lab if necessary and starts it in the background.
func (Lab) Start(ctx context.Context) error { return only(ctx, session.LabStart) }

// Status shows whether the lab runs, where, and how much memory it uses.
func (Lab) Status(ctx context.Context,
	json *bool, // print data as lines of JSON
) error {
	return leave(console.New(value(json)), session.LabStatus(ctx, session.LabStatusFlags{JSON: value(json)}))
}

// Stop ends the lab and everything in it.
func (Lab) Stop(ctx context.Context) error { return only(ctx, session.LabStop) }

// only runs a target without flags.
func only(ctx context.Context, do func(context.Context) error) error {
	return leave(console.New(false), do(ctx))
}
