package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Platform is what runs on Kubernetes for the people who use it; cluster:up brings it.
type Platform mg.Namespace

// Passwords shows the first passwords that were generated: of the hub, Rancher, Grafana. Flags: -spec=FILE -yes -json.
func (Platform) Passwords(ctx context.Context, spec *string, yes, json *bool) error {
	return with(ctx, options(spec, json, yes, nil), (*session.Session).Passwords)
}
