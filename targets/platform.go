package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Platform is the services on top of Kubernetes, which cluster:up installs.
type Platform mg.Namespace

// Passwords shows the generated first passwords of the hub, Rancher and Grafana.
func (Platform) Passwords(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // print them into a file or a pipe too
	json *bool, // print data and events as lines of JSON
) error {
	return withFlags(ctx, options(spec, json, nil), (*session.Session).Passwords, session.PasswordsFlags{Yes: value(yes)})
}
