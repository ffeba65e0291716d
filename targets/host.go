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

// Check checks whether the hosts can run what cluster.yaml describes, and changes nothing; exit code 0, 1 for warnings, 2 for errors. Flags: -spec=FILE -host=NAME -ssh=USER@ADDRESS:PORT -fingerprint=SHA256:… -json.
func (Host) Check(ctx context.Context, spec, host, ssh, fingerprint *string, json *bool) error {
	o := options(spec, json, nil, nil)
	o.Host, o.SSH, o.Fingerprint, o.Start = value(host), value(ssh), value(fingerprint), true
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(o.Console, session.HostCheck(ctx, o))
}

// Prep prepares the hosts over SSH, as root: it shows every change, asks, and makes it. Without a file, -ssh names the host. Flags: -spec=FILE -host=NAME -ssh=USER@ADDRESS:PORT -fingerprint=SHA256:… -name=CLUSTER -out=FILE -yes -reboot -force -framebuffer -json -nowait.
func (Host) Prep(ctx context.Context, spec, host, ssh, fingerprint, name, out *string, yes, reboot, force, framebuffer, json, nowait *bool) error {
	o := options(spec, json, yes, nil)
	o.Host, o.SSH, o.Fingerprint, o.Name, o.Out = value(host), value(ssh), value(fingerprint), value(name), value(out)
	o.Reboot, o.Force, o.Framebuffer, o.NoWait = value(reboot), value(force), value(framebuffer), value(nowait)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return leave(o.Console, session.HostPrep(ctx, o))
}

// Role prints the privileges that the token needs and why, as commands for root; it changes nothing. Flags: -spec=FILE -pve=8.4 -json.
func (Host) Role(ctx context.Context, spec, pve *string, json *bool) error {
	o := options(spec, json, nil, nil)
	o.PVE = value(pve)
	return leave(o.Console, session.HostRole(ctx, o))
}

// Trial tests hosts with a cluster of its own: up, changes, down; it plans after each step and writes a record. Flags: -spec=FILE -from=STEP -out=FILE.md|FILE.json -yes -json -nowait -timeout=3h.
func (Host) Trial(ctx context.Context, spec, from, out *string, yes, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.From, o.Out, o.NoWait, o.Start, o.MakeKey = value(from), value(out), value(nowait), true, true
	return within(ctx, o, session.HostTrial)
}
