package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/spec"
)

// remaining is the part of a driver that is not installed yet, without packages on hold.
func (s driverSeen) remaining() drift.Diff {
	return slices.DeleteFunc(s.want.DiffPackages(s.DriverState), func(f drift.Field) bool { return strings.HasPrefix(f.Path, "hold/") })
}

// failed reports whether the driver was tried and did not load. One that is loaded has its
// words in the kernel's log, too, and they are not about another that is installed.
func (s driverSeen) failed() bool { return s.Loaded == "" && len(s.Log) > 0 }

// mayLoad reports whether a node may have to restart for its driver: the plan then shows the
// cost, and otherwise loadDriver restarts nothing.
func (s driverSeen) mayLoad() bool {
	if s.remaining().Empty() {
		return !s.failed() && s.want.Diff(s.DriverState).Effect() == drift.Restart // else a start does not help
	}
	return true
}

// loadDriver restarts a node whose driver is installed and not loaded, because it came
// just now, with its kernel, or before the run that brought it ended. A driver that was
// tried and has failed, as the kernel's log says, is not helped by that.
func (c *Cluster) loadDriver(ctx context.Context, n spec.Node, before driverSeen) error {
	now, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err != nil {
		return err
	}
	remaining := before.remaining()
	// Another mode's modules may be of the version that is loaded: whether they load is
	// seen at a start only.
	switched := slices.ContainsFunc(remaining, func(f drift.Field) bool { return f.Path == nvidia.FieldMode })
	if !before.mayLoad() || !switched && before.want.Diff(now).Effect() != drift.Restart {
		return nil
	}
	progress.Say(ctx, "restarting %s to load the driver", n.Name)
	if !nodes.SeenOf(ctx, n.Name).Absent.Load() { // else it was made just now, and nobody misses it yet
		if was, err := c.members.ObserveNode(ctx, n.Name); was != nil || err != nil && !errors.Is(err, members.ErrUnformed) {
			return c.members.TakeDown(ctx, n, func(ctx context.Context) error {
				if err := c.restart(ctx, n); err != nil {
					return err
				}
				return c.waitDriver(ctx, n, before.want.Diff)
			})
		}
	}
	if err := c.restart(ctx, n); err != nil {
		return err
	}
	return c.nodes.WaitBooted(ctx, n)
}

// restart switches a node off and on: a restart from inside would not reset its cards.
func (c *Cluster) restart(ctx context.Context, n spec.Node) error {
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return err
	}
	if vm == nil {
		return fmt.Errorf("there is no VM %s", n.Name)
	}
	if err := c.Proxmox.Shutdown(ctx, vm); err != nil {
		return err
	}
	return c.Proxmox.Start(ctx, vm)
}

// waitDriver waits until a node that was started has all of its cards up, and nothing is
// wrong with its driver for which it would have to start again. It is for one whose turn it
// is: of a driver that loads nowhere, or a card that does not come up, one node is to fall ill.
func (c *Cluster) waitDriver(ctx context.Context, n spec.Node, wrong func(nvidia.DriverState) drift.Diff) error {
	if err := c.nodes.WaitBooted(ctx, n); err != nil {
		return err
	}
	rule := wait.Rule{What: "waiting for the GPUs of " + n.Name, Limit: driverTime, Poll: driverPoll, Late: "the GPUs of " + n.Name + " are not all ready"}
	return run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		s, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
		if err != nil {
			return "", err
		}
		if d := wrong(s); d.Effect() == drift.Restart {
			return d.String(), nil
		}
		return nvidia.DiffGPUs(s, n.GPUs.Count).String(), nil
	})
}

// moreCards gives a VM more cards by do, and waits until its driver has brought them up,
// where it has one that works. On a machine that nobody can log in to now there is nothing
// to wait for that could be seen: its own steps say so.
func (c *Cluster) moreCards(ctx context.Context, n spec.Node, do func() error) error {
	before, unseen := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
	if err := do(); err != nil || unseen != nil || len(before.GPUs()) == 0 {
		return err
	}
	return c.waitDriver(ctx, n, func(nvidia.DriverState) drift.Diff { return nil })
}
