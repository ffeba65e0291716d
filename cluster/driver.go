package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
)

// driverSeen is a node's driver, and the driver that it should have.
type driverSeen struct {
	nvidia.DriverState
	want nvidia.Recipe
}

// driverStep checks that the driver has brought up all of a node's GPUs, and that the container
// toolkit is installed, before K3s starts and looks for it. It installs what the template does
// not contain.
func (c *machines) driverStep(n spec.Node) *converge.Resource[driverSeen] {
	if n.External {
		return c.externalDriverStep(n)
	}
	return &converge.Resource[driverSeen]{
		ID: "driver/" + n.Name,
		Observe: func(ctx context.Context) (driverSeen, error) {
			seen, err := nvidia.ObserveDriver(ctx, c.nodes.Root(n.Name))
			if err != nil {
				return driverSeen{}, err
			}
			want, err := c.templates.Driver(ctx, n, seen)
			if err == nil {
				err = c.mayBuild(ctx, n, want)
			}
			return driverSeen{seen, want}, err
		},
		Diff: func(s driverSeen) converge.Diff {
			d := append(s.want.Diff(s.DriverState), nvidia.Toolkit{}.Diff(s.DriverState)...)
			if s.Loaded != "" {
				d = append(d, nvidia.DiffGPUs(s.DriverState, n.GPUs.Count)...)
			}
			return append(d, stillDivided(n, s.DriverState)...)
		},
		Costs: c.costsOfDriver(n),
		Apply: func(ctx context.Context, s driverSeen) error {
			if err := c.upgradeDriver(ctx, n, s); err != nil || stillDivided(n, s.DriverState).Empty() {
				return err
			}
			return c.divide(ctx, n, offer.Whole(n))
		},
		Settle: driverTime,
		Poll:   driverPoll,
	}
}

// mayBuild refuses to build modules on a node whose firmware does not load them. That concerns
// VMs and templates that another owner has made; for machines of ours, the file is refused.
func (c *machines) mayBuild(ctx context.Context, n spec.Node, want nvidia.Recipe) error {
	if !want.Build {
		return nil
	}
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil || vm == nil || !vm.SecureBoot {
		return err
	}
	return converge.Permanent(errors.New(templates.SecureBootOn(vm.String())))
}

// The time that a driver may take to bring up its GPUs after boot, and the time between checks.
const (
	driverTime = 90 * time.Second
	driverPoll = 3 * time.Second
)

// costsOfDriver is the cost of another driver on a joined node: a restart loads it.
func (c *machines) costsOfDriver(n spec.Node) func(context.Context, driverSeen, converge.Diff) []converge.Cost {
	return func(ctx context.Context, s driverSeen, _ converge.Diff) []converge.Cost {
		if !s.upgrades() {
			if stillDivided(n, s.DriverState).Empty() {
				return nil
			}
			return c.costsOfDividing(ctx, n)
		}
		if c.nodes.Seen(n.Name).Absent.Load() {
			return nil
		}
		if have, err := k3s.Observe(ctx, c.nodes.Root(n.Name)); err == nil && have.Role == k3s.RoleNone {
			return nil // it has not joined yet, so the restart interrupts nothing
		}
		if c.replaces(n) {
			return c.costsOfReplacing(ctx, n, s.words())
		}
		return c.members.Upgrades(ctx, s.words(), n)
	}
}

// replaces reports whether a node gets another driver or toolkit with another machine
// (nvidia.driver.upgrade). Servers, machines that homelab did not make, and machines with data
// get them in place.
func (c *machines) replaces(n spec.Node) bool {
	data := func(d spec.Disk) bool { return d.Role == spec.RoleData }
	return c.spec.NVIDIA.DriverUpgrade == spec.DriverReplace && n.Role == spec.Agent && !n.External && !n.Adopt && !slices.ContainsFunc(n.Disks, data)
}

// replaceForDriver recreates a node's machine in its turn, from the template of the file. What can
// refuse that does so while the node still works, and the template is baked before the node is drained.
func (c *machines) replaceForDriver(ctx context.Context, n spec.Node) error {
	// A run of its own: what it sees of the machine that goes says nothing about the one that comes.
	again, err := c.flow().nodeReplaceGraph(ctx, n.Name, false)
	if err == nil {
		err = c.bakeFirst(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("%s keeps its machine: %w", n.Name, err)
	}
	again.BeforeActing = nil // the run that this is a part of has checked it
	again.Approve = converge.ApproveFromContext(ctx)
	return c.wayOn(ctx, n, c.members.Upgrade(ctx, n, "its machine", func(ctx context.Context) error {
		_, err := again.Run(ctx, retold(ctx))
		return err
	}))
}

// bakeFirst bakes the template for a node that is recreated, once for all nodes of a host.
func (c *machines) bakeFirst(ctx context.Context, n spec.Node) error {
	select {
	case c.baking <- struct{}{}:
		defer func() { <-c.baking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	g := c.flow().members.Graph()
	g.Add(c.templates.Step(n.Host, n.Name))
	_, err := g.Run(ctx, retold(ctx))
	return err
}

// retold reports what the steps of a run within a step say as that step's progress.
func retold(ctx context.Context) func(converge.Event) {
	return func(e converge.Event) {
		switch {
		case e.Message != "":
			converge.Progressf(ctx, "%s: %s", e.Step, e.Message)
		case e.Kind == converge.Changed:
			converge.Progressf(ctx, "%s: done", e.Step)
		}
	}
}

// costsOfReplacing is the cost of another driver by another machine.
func (c *machines) costsOfReplacing(ctx context.Context, n spec.Node, why string) []converge.Cost {
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	lost := c.destroys(ctx, n.Name, "", vm, err)
	costs := c.members.Upgrades(ctx, why+": its machine is recreated from the template of the file", n)
	for i := range costs {
		costs[i].Kind, costs[i].Holds = converge.CostDestroy, lost.Holds
	}
	return costs
}
