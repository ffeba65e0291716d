package targets

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Host prepares and checks Proxmox VE hosts.
type Host mg.Namespace

// Check checks whether the hosts can run what cluster.yaml describes, and changes nothing; exit code 0, 1 for warnings, 2 for errors.
func (Host) Check(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	host *string, // NAME: only this host of the file
	ssh *string, // USER@ADDRESS:PORT: log in to the host here, instead of where the file says
	fingerprint *string, // SHA256:…: the host's SSH key, for the first contact
	json *bool, // print data and events as lines of JSON
) error {
	o := options(spec, json, nil)
	o.Start = true
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(o.Console, session.HostCheck(ctx, o, hosts(host, ssh, fingerprint)))
}

// Prep prepares the hosts over SSH, as root: it shows every change, asks, and makes it. Without a file, -ssh names the host.
func (Host) Prep(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	host *string, // NAME: only this host of the file
	ssh *string, // USER@ADDRESS:PORT: log in to the host here, instead of where the file says
	fingerprint *string, // SHA256:…: the host's SSH key, for the first contact
	name *string, // CLUSTER: the cluster's name, while there is no file
	out *string, // FILE: the file for the secret of a token that it creates
	yes *bool, // do not ask: agree to everything that is shown
	reboot *bool, // reboot hosts that wait for it
	force *bool, // create a new token if the old one's secret is missing
	framebuffer *bool, // take the console off the card that the host booted on
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
) error {
	o := options(spec, json, nil)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(o.Console, session.HostPrep(ctx, o, session.HostPrepFlags{
		HostFlags: hosts(host, ssh, fingerprint), ChangeFlags: changes(yes, nowait),
		Name: value(name), Out: value(out), Reboot: value(reboot), Force: value(force), Framebuffer: value(framebuffer),
	}))
}

// Role prints the privileges that the token needs and why, as commands for root; it changes nothing.
func (Host) Role(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	pve *string, // 8.4: the version of Proxmox VE, instead of asking the host
	json *bool, // print data and events as lines of JSON
) error {
	o := options(spec, json, nil)
	return leave(o.Console, session.HostRole(ctx, o, session.HostRoleFlags{PVE: value(pve)}))
}

// Trial tests hosts with a cluster of its own: up, changes, down; it plans after each step and writes a record.
func (Host) Trial(ctx context.Context,
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	from *string, // STEP: start with this step
	out *string, // FILE: write the record here, as FILE.md or FILE.json
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	o := options(spec, json, timeout)
	o.Start, o.MakeKey = true, true
	flags := session.HostTrialFlags{ChangeFlags: changes(yes, nowait), From: value(from), Out: value(out)}
	return within(ctx, o, func(ctx context.Context, o session.Options) error { return session.HostTrial(ctx, o, flags) })
}
