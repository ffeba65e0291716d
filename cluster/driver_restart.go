package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/artifacts"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/nvidia"
)

// remaining is the part of a driver that is not installed yet, without packages on hold.
func (s driverSeen) remaining() converge.Diff {
	return slices.DeleteFunc(s.want.DiffPackages(s.DriverState), func(f converge.Field) bool { return strings.HasPrefix(f.Path, "hold/") })
}

// failed reports whether the driver was tried and did not load. If a driver is loaded, the
// messages in the kernel's log are from that one, not from another that is installed.
func (s driverSeen) failed() bool { return s.Loaded == "" && len(s.Log) > 0 }

// mayLoad reports whether a node may have to restart for its driver. Then the plan shows the
// cost; otherwise loadDriver restarts nothing.
func (s driverSeen) mayLoad() bool {
	missing := s.remaining()
	if s.Loaded != "" { // modules for another kernel than the running one are built without it
		missing = slices.DeleteFunc(missing, func(f converge.Field) bool { return strings.HasPrefix(f.Path, nvidia.ModulePath) })
	}
	if missing.Empty() {
		return !s.failed() && s.want.Diff(s.DriverState).Effect() == converge.Restart // otherwise a restart does not help
	}
	return true
}

// upgrades reports whether a node goes down for its driver or its toolkit.
func (s driverSeen) upgrades() bool { return s.mayLoad() || nvidia.Toolkit{}.Stale(s.DriverState) }

// upgradeDriver installs a node's driver and toolkit as wanted. A node that has joined goes down for
// that as for another version of K3s: one after the other, when no pod holds its GPUs or their time is
// over. Nothing is installed before: libraries of another version than the loaded module would end the
// work on its GPUs as surely. A node whose driver is not loaded runs no such work.
func (c *machines) upgradeDriver(ctx context.Context, n spec.Node, s driverSeen) error {
	root := c.nodes.Root(n.Name)
	install := func(ctx context.Context) error {
		if err := nvidia.InstallDriver(ctx, root, s.want); err != nil {
			return err
		}
		return nvidia.InstallToolkit(ctx, artifacts.Outward(c.spec, root), nvidia.Toolkit{})
	}
	if !s.upgrades() {
		return install(ctx)
	}
	if !c.joined(ctx, n) {
		if err := install(ctx); err != nil || !s.mayLoad() {
			return err
		}
		return c.loadDriver(ctx, n, s)
	}
	if c.replaces(n) {
		return c.replaceForDriver(ctx, n)
	}
	if err := nvidia.FetchDriver(ctx, root, s.want); err != nil {
		return fmt.Errorf("%s keeps its driver, and stays up: %w", n.Name, err)
	}
	keeps := "its driver"
	if s.Loaded == "" {
		keeps = ""
	}
	return c.wayOn(ctx, n, c.members.Upgrade(ctx, n, keeps, func(ctx context.Context) error {
		if err := install(ctx); err != nil {
			return err
		}
		converge.Progressf(ctx, "restarting %s with driver %s", n.Name, s.want)
		if err := c.restart(ctx, n); err != nil {
			return err
		}
		return c.waitDriver(ctx, n, s.want.Diff)
	}))
}

// joined reports whether Kubernetes has a node, or cannot say: a new machine has not joined.
func (c *site) joined(ctx context.Context, n spec.Node) bool {
	if c.nodes.Seen(n.Name).Absent.Load() {
		return false
	}
	was, err := c.members.ObserveNode(ctx, n.Name)
	return was != nil || err != nil && !errors.Is(err, members.ErrUnformed)
}

// wayOn adds to the failure of an upgrade how to go on, and how to go back.
func (c *machines) wayOn(ctx context.Context, n spec.Node, err error) error {
	var stays *members.StaysError
	if err == nil || ctx.Err() != nil || errors.As(err, &stays) {
		return err
	}
	return fmt.Errorf("%w\n  to go on: fix that, then run homelab cluster:up again: it goes on with %s, and no other node goes down before it is well"+
		"\n  to go back: write the earlier branch under nvidia.driver and run it again; homelab node:replace -node=%s recreates the machine with the driver of the file", err, n.Name, printable.Word(n.Name))
}

// loadDriver restarts a new node whose driver is installed but not loaded. That is the case if the
// driver was just installed, together with its kernel, or if an earlier run ended after
// installing it. A restart does not help if the kernel's log shows that the driver failed to
// load.
func (c *machines) loadDriver(ctx context.Context, n spec.Node, before driverSeen) error {
	now, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err != nil {
		return err
	}
	// Modules of another mode may have the version that is loaded. Only a restart shows whether
	// they load.
	switched := slices.ContainsFunc(before.remaining(), func(f converge.Field) bool { return f.Path == nvidia.FieldMode })
	if !switched && before.want.Diff(now).Effect() != converge.Restart {
		return nil
	}
	converge.Progressf(ctx, "restarting %s to load the driver", n.Name)
	if err := c.restart(ctx, n); err != nil {
		return err
	}
	return c.nodes.WaitBooted(ctx, n)
}

// restart switches a node off and on: a restart from inside would not reset its cards.
func (c *site) restart(ctx context.Context, n spec.Node) error {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return err
	}
	if vm == nil {
		return fmt.Errorf("there is no VM %s", n.Name)
	}
	if err := c.Proxmox.VMs.Shutdown(ctx, vm); err != nil {
		return err
	}
	return c.Proxmox.VMs.Start(ctx, vm)
}

// waitDriver waits until a restarted node has all of its cards up, and its driver needs no
// further restart. The caller must have the turn: if a driver does not load anywhere, or a card
// does not come up, only one node fails.
func (c *machines) waitDriver(ctx context.Context, n spec.Node, wrong func(nvidia.DriverState) converge.Diff) error {
	if err := c.nodes.WaitBooted(ctx, n); err != nil {
		return err
	}
	rule := converge.WaitRule{What: "waiting for the GPUs of " + n.Name, Limit: driverTime, Poll: driverPoll,
		TimeoutText: "the GPUs of " + n.Name + " are not all ready"}
	return run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		s, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
		if err != nil {
			return "", err
		}
		if d := wrong(s); d.Effect() == converge.Restart {
			return d.String(), nil
		}
		return nvidia.DiffGPUs(s, n.GPUs.Count).String(), nil
	})
}

// moreCards gives a VM more cards by calling do, and waits until its driver has brought them up,
// if it has a working driver. If nobody can log in to the machine now, moreCards does not wait,
// because it cannot see the cards: the machine's own steps report that.
func (c *machines) moreCards(ctx context.Context, n spec.Node, do func() error) error {
	before, unseen := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err := do(); err != nil || unseen != nil || len(before.GPUs()) == 0 {
		return err
	}
	return c.waitDriver(ctx, n, func(nvidia.DriverState) converge.Diff { return nil })
}

// words say what a node goes down for.
func (s driverSeen) words() string {
	if !s.mayLoad() {
		return (nvidia.Toolkit{}).String()
	}
	text := "NVIDIA's driver " + s.want.String() + " is loaded by a restart"
	if !s.want.Build && !s.remaining().Empty() {
		text += ", with the newest kernel of its series"
	}
	return text
}
