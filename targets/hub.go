package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Hub is JupyterHub.
type Hub mg.Namespace

// Open prints the hub's address; if this machine cannot reach it, it forwards a local port until Ctrl-C.
func (Hub) Open(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	browser *bool, // open it in the browser
	port *int, // 8000: forward this port of this machine
) error {
	return withFlags(ctx, options(spec, nil, nil), (*session.Session).HubOpen, session.HubOpenFlags{
		Browser: value(browser), Port: value(port),
	})
}

// Verify starts a server of each profile, computes in it, on its GPUs too, and removes it.
func (Hub) Verify(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	profile *string, // NAME: only this profile
	json *bool, // print data and events as lines of JSON
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
	report *string, // FILE: write a page about it here, for a browser, also if it fails
) error {
	o, flags := options(spec, json, timeout), session.HubVerifyFlags{Profile: value(profile)}
	o.Report = value(report)
	return withReport(ctx, o, "hub:verify", func(s *session.Session, ctx context.Context) error { return s.HubVerify(ctx, flags) })
}

// Profiles shows on which nodes each profile fits, and how many servers at once, from the file alone.
func (Hub) Profiles(
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
) error {
	o := options(spec, json, nil)
	s, err := session.Load(o)
	if err != nil {
		return leave(o.Console, err)
	}
	return leave(o.Console, s.HubProfiles())
}
