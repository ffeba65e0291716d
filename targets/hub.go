package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Hub is JupyterHub.
type Hub mg.Namespace

// Open prints the hub's address; if this machine cannot reach it, it forwards a local port until Ctrl-C. Flags: -spec=FILE -browser -port=8000.
func (Hub) Open(ctx context.Context, spec *string, browser *bool, port *int) error {
	return with(ctx, options(spec, nil, nil, nil), func(s *session.Session, ctx context.Context) error {
		return s.HubOpen(ctx, session.HubFlags{Browser: value(browser), Port: value(port)})
	})
}

// Verify starts a server of each profile, computes in it, on its GPUs too, and removes it. Flags: -spec=FILE -profile=NAME -json -timeout=1h.
func (Hub) Verify(ctx context.Context, spec, profile *string, json *bool, timeout *time.Duration) error {
	return with(ctx, options(spec, json, nil, timeout), func(s *session.Session, ctx context.Context) error {
		return s.HubVerify(ctx, session.HubFlags{Profile: value(profile)})
	})
}

// Profiles shows on which nodes each profile fits, and how many servers at once, from the file alone. Flags: -spec=FILE -json.
func (Hub) Profiles(spec *string, json *bool) error {
	o := options(spec, json, nil, nil)
	s, err := session.Load(o)
	if err != nil {
		return leave(o.Console, err)
	}
	return leave(o.Console, s.HubProfiles())
}
