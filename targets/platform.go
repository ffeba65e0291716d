package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Platform is the services on top of Kubernetes, which cluster:up installs.
type Platform mg.Namespace

// Passwords shows the generated first passwords of the hub, Rancher and Grafana. Flags: -spec=FILE -yes -json.
func (Platform) Passwords(ctx context.Context, spec *string, yes, json *bool) error {
	return with(ctx, options(spec, json, yes, nil), (*session.Session).Passwords)
}
