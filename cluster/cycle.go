package cluster

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// NodeCycle drains a node, switches its VM off and on, and uncordons it when it is Ready with
// all its GPUs. A reboot inside the guest never resets a passed-through card; stopping the VM
// does.
func (c *Cluster) NodeCycle(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	f := c.site.flow()
	return run.Retry(ctx, f.spec, func(ctx context.Context) (*converge.Graph, error) { return f.nodeCycleGraph(ctx, name, force) })
}

func (c *machines) nodeCycleGraph(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	n, err := c.machineOf(name, "switch off")
	if err != nil {
		return nil, err
	}
	vm, err := c.Proxmox.VMs.Get(ctx, names.Tag(c.spec), n.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		return nil, &RefusedError{name, "it has no VM: homelab cluster:up creates it"}
	}
	if !force {
		if err := c.checkMayStop(ctx, n); err != nil {
			return nil, err
		}
	}
	g := c.members.Graph()
	g.Add(c.cycleStep(n, vm))
	return g, nil
}

// cycleStep switches the machine off and on that existed when the command started.
func (c *machines) cycleStep(n spec.Node, vm *proxmox.VM) *converge.Resource[*proxmox.VM] {
	return &converge.Resource[*proxmox.VM]{
		ID:      "cycle/" + n.Name,
		Observe: func(context.Context) (*proxmox.VM, error) { return vm, nil },
		Diff: func(vm *proxmox.VM) converge.Diff {
			return converge.Diff{{Path: "power", Have: vm.String(), Want: "drained, stopped and started", Effect: converge.Restart}}
		},
		Costs: c.costsOfCycle(n),
		Apply: func(ctx context.Context, vm *proxmox.VM) error {
			return c.members.Cycle(ctx, n, func(ctx context.Context) error {
				return c.whileOff(ctx, vm, func(*proxmox.VM) error { return nil })
			})
		},
		Once: true,
	}
}

// shutDown shuts down a machine that was seen earlier, once no other task works on it, and
// returns its new state. Draining takes a while, and the VMID may belong to another machine by
// now, which is left alone.
func (c *site) shutDown(ctx context.Context, vm *proxmox.VM) (*proxmox.VM, error) {
	now, err := c.Proxmox.VMs.WaitIdle(ctx, vm)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return nil, fmt.Errorf("%s is gone", vm)
	}
	return now, c.Proxmox.VMs.Shutdown(ctx, now)
}

// whileOff shuts a machine down like shutDown, calls do with its new state, and starts it.
func (c *site) whileOff(ctx context.Context, vm *proxmox.VM, do func(vm *proxmox.VM) error) error {
	now, err := c.shutDown(ctx, vm)
	if err != nil {
		return err
	}
	if err := do(now); err != nil {
		return err
	}
	return c.Proxmox.VMs.Start(ctx, now)
}

// costsOfCycle is the cost of switching a node off and on.
func (c *machines) costsOfCycle(n spec.Node) func(context.Context, *proxmox.VM, converge.Diff) []converge.Cost {
	return func(ctx context.Context, _ *proxmox.VM, _ converge.Diff) []converge.Cost {
		return c.members.Stops(ctx, "drained, stopped and started", n.Name)
	}
}
