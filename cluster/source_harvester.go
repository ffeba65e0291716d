package cluster

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/harvestervms"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/harvester"
	"github.com/cps-gpu/homelab/nvidia"
)

// onHarvester makes VMs of Harvester.
type onHarvester struct {
	*machines
	vms *harvestervms.VMs
}

func newOnHarvester(c *machines) onHarvester {
	return onHarvester{c, &harvestervms.VMs{Spec: c.spec, Client: c.Harvester, Seeds: c.seeds, Nodes: c.nodes, Members: c.members}}
}

func (c onHarvester) check() converge.Step { return c.vms.CheckStep(c.checkFiles) }

func (c onHarvester) prepare(up *converge.Graph, check *converge.Ref) []*converge.Ref {
	return []*converge.Ref{up.Add(c.vms.ImageStep(), check)}
}

func (c onHarvester) removal(up *converge.Graph, begin ...*converge.Ref) *converge.Ref {
	return up.Add(c.vms.RestsStep(false), up.Add(c.vms.RemovedStep(), begin...))
}

func (c onHarvester) machine(g *converge.Graph, n spec.Node, on ground) (vm, booted *converge.Ref) {
	vm = g.Add(c.vms.VMStep(n), append([]*converge.Ref{on.free}, on.first...)...)
	booted = g.Add(c.nodes.GuestStep(n), vm)
	g.Add(c.vms.KeysStep(n), booted)
	return vm, booted
}

func (c onHarvester) list(ctx context.Context) ([]vmSeen, error) {
	all, err := c.Harvester.List(ctx)
	var out []vmSeen
	for _, vm := range all {
		out = append(out, vmSeen{name: vm.Name, host: vm.Node, running: vm.Running})
	}
	return out, err
}

func (c onHarvester) destroy(ctx context.Context, down *converge.Graph, _ map[string]bool) ([]*converge.Ref, error) {
	all, err := c.Harvester.List(ctx)
	var gone []*converge.Ref
	for _, vm := range all {
		gone = append(gone, down.Add(c.vms.DestroyStep("vm/"+vm.Name, vm, "", false)))
	}
	return append(gone, down.Add(c.vms.RestsStep(true), gone...)), err
}

func (c onHarvester) driver(ctx context.Context, n spec.Node, seen nvidia.DriverState) (nvidia.Recipe, error) {
	cards, err := c.vms.Cards(ctx, n)
	if err != nil {
		return nvidia.Recipe{}, err
	}
	return c.templates.DriverOf(cards, seen)
}

func (c onHarvester) lease() converge.LeaseStore { return c.Harvester.Lease() }

func (c onHarvester) replace(ctx context.Context, n spec.Node, force bool) (*converge.Graph, error) {
	vm, err := c.Harvester.Get(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	old := c.oldVM(n, vm)
	if err := c.checkMayDestroy(ctx, n, old, force); err != nil {
		return nil, err
	}
	g := c.members.Graph()
	begin := g.Add(c.check())
	ready := c.prepare(g, begin) // the image, before anything is destroyed
	gone := g.Add(c.retireStep(n, old), ready...)
	if vm != nil {
		gone = g.Add(c.vms.DestroyStep("destroy/"+n.Name, vm, "its machine is recreated", true), gone)
	}
	_, booted := c.machines.machine(g, n, ground{begin: ready, free: gone, again: true})
	c.joinAgain(g, n, booted)
	return g, nil
}

func (c onHarvester) oldVM(n spec.Node, vm *harvester.VM) oldMachine {
	if vm == nil {
		return oldMachine{}
	}
	return oldMachine{true, vm.Running, c.vms.Data(n, vm), func(ctx context.Context) error {
		if err := c.Harvester.Stop(ctx, vm); err != nil || n.Role == spec.Agent {
			return err
		}
		c.members.SetClient(nil, "") // connections may be to this machine
		return c.members.APIBack(ctx, members.APITime)
	}}
}

func (c onHarvester) restart(ctx context.Context, n spec.Node) error {
	vm, err := c.Harvester.Get(ctx, n.Name)
	switch {
	case err != nil:
		return err
	case vm == nil:
		return fmt.Errorf("there is no VM %s", n.Name)
	}
	if err := c.Harvester.Stop(ctx, vm); err != nil {
		return err
	}
	return c.Harvester.Start(ctx, vm)
}
