package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/upgrade"
)

// K3s is the Kubernetes of the cluster.
type K3s mg.Namespace

// Upgrade writes a version of K3s into cluster.yaml, after showing the line, and then does what cluster:up does.
func (K3s) Upgrade(ctx context.Context,
	to *string, // VERSION: the release of K3s, e.g. v1.36.6+k3s1
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	charts *string, // FOLDER: take charts from here before any repository
	destroy *string, // A,B: agree to destroy these machines
	offline *bool, // take charts from that folder and the cache only
	json *bool, // print data and events as lines of JSON
	yes *bool, // do not ask: agree to everything that is shown
	restart *bool, // agree to restarts of machines
	login *bool, // agree to add your login to machines that know none of your keys
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, json, timeout)
	o.ChartFlags = session.ChartFlags{Charts: value(charts), Offline: value(offline)}
	return within(ctx, o, func(ctx context.Context, o session.Options) error {
		return upgrade.K3s(ctx, o, session.UpgradeFlags{To: value(to), UpFlags: session.UpFlags{
			ChangeFlags: changes(yes, nowait), Restart: value(restart), Login: value(login), Destroy: value(destroy),
		}})
	})
}
