package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
)

// replaces reports whether a node gets another driver or toolkit with another machine
// (nvidia.driver.upgrade). Servers, machines that homelab did not make, and machines with data
// get them in place.
func (c *Cluster) replaces(n spec.Node) bool {
	data := func(d spec.Disk) bool { return d.Role == spec.RoleData }
	return c.spec.NVIDIA.DriverUpgrade == spec.DriverReplace && n.Role == spec.Agent && !n.External && !n.Adopt && !slices.ContainsFunc(n.Disks, data)
}

// replaceForDriver recreates a node's machine in its turn, from the template of the file. What can
// refuse that does so while the node still works, and the template is baked before the node is drained.
func (c *Cluster) replaceForDriver(ctx context.Context, n spec.Node) error {
	again, err := c.nodeReplaceGraph(ctx, n.Name, false)
	if err == nil {
		err = c.bakeFirst(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("%s keeps its machine: %w", n.Name, err)
	}
	again.Before = nil // the run that this is a part of has checked it
	again.May = converge.Asking(ctx)
	return c.wayOn(ctx, n, c.members.Upgrade(ctx, n, "its machine", func(ctx context.Context) error {
		_, err := again.Run(ctx, retold(ctx))
		return err
	}))
}

// bakeFirst bakes the template for a node that is recreated, once for all nodes of a host.
func (c *Cluster) bakeFirst(ctx context.Context, n spec.Node) error {
	select {
	case c.baking <- struct{}{}:
		defer func() { <-c.baking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	g := run.Graph(c.spec)
	g.Add(c.templates.Step(n.Host, n.Name))
	_, err := g.Run(ctx, retold(ctx))
	return err
}

// retold reports what the steps of a run within a step say as that step's progress.
func retold(ctx context.Context) func(converge.Event) {
	return func(e converge.Event) {
		switch {
		case e.Message != "":
			progress.Say(ctx, "%s: %s", e.Step, e.Message)
		case e.Kind == converge.Changed:
			progress.Say(ctx, "%s: done", e.Step)
		}
	}
}

// costsOfReplacing is the cost of another driver by another machine.
func (c *Cluster) costsOfReplacing(ctx context.Context, n spec.Node, why string) []converge.Cost {
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
	lost := c.destroys(ctx, n.Name, "", vm, err)
	costs := c.members.Upgrades(ctx, why+": its machine is recreated from the template of the file", n)
	for i := range costs {
		costs[i].Kind, costs[i].Holds = converge.Destroys, lost.Holds
	}
	return costs
}
