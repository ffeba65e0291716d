package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// vmStep makes a node's VM and keeps it up to date.
func (c *Cluster) vmStep(n spec.Node) *converge.Resource[*proxmox.VM] {
	// A VM does not show which template it was cloned from, so a check needs no template.
	want := func(template string) (proxmox.VMSpec, error) {
		sd, err := c.seeds.Seed(n)
		return c.vm(n, template, sd.File), err
	}
	return &converge.Resource[*proxmox.VM]{
		ID: "vm/" + n.Name,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), n.Name)
			if err != nil {
				return nil, err
			}
			if met := nodes.SeenOf(ctx, n.Name); vm != nil && !met.Made.Load() {
				met.Absent.Store(false)
			}
			if vm != nil {
				return vm, nil
			}
			if n.Adopt {
				return c.adoptable(ctx, n, want)
			}
			nodes.SeenOf(ctx, n.Name).Absent.Store(true)
			// We must not take over a copy that has this name, and create no VM beside it.
			return nil, converge.Permanent(c.Proxmox.Conflict(ctx, names.Tag(c.spec), n.Name))
		},
		Diff: func(vm *proxmox.VM) drift.Diff {
			spec, err := want("")
			if err != nil {
				return drift.Missing(err.Error())
			}
			return c.seeds.KeepBoot(n, spec, vm).Diff(vm)
		},
		Costs: c.costsOfVM(n),
		Apply: func(ctx context.Context, vm *proxmox.VM) error {
			nodes.SeenOf(ctx, n.Name).Made.CompareAndSwap(false, vm == nil)
			spec, err := want("")
			if err != nil {
				return err
			}
			spec = c.seeds.KeepBoot(n, spec, vm)
			if !n.Adopt {
				if spec, err = c.templates.Cloned(ctx, n, spec, vm); err != nil {
					return err
				}
			}
			return c.shape(ctx, n, spec, vm)
		},
		Settle: 2 * time.Minute,
	}
}

// shape applies a spec to a VM. If the VM must stop for that, it is drained first, and only one
// VM is down at a time.
func (c *Cluster) shape(ctx context.Context, n spec.Node, to proxmox.VMSpec, vm *proxmox.VM) error {
	switch diff := to.Diff(vm); {
	case vm == nil:
		// Everything known about a machine of this name is about an earlier machine.
		if err := c.nodes.ForgetKey(n.Name); err != nil {
			return err
		}
		if err := c.hosts.Flush(); err != nil { // even a run that is killed must not leave the old keys
			return err
		}
	case diff.Effect() == drift.Replace && n.Role == spec.FileServer:
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  it holds data, so homelab does not recreate it: restore its earlier settings in the file, or move its data by hand", n.Name, replaced(diff)))
	case diff.Effect() == drift.Replace:
		return converge.Permanent(fmt.Errorf("%s cannot change to what the file says while it exists: %s\n"+
			"  homelab node:replace -node=%s recreates it: drains it, destroys it with its disks, clones it, and lets it join again", n.Name, replaced(diff), printable.Word(n.Name)))
	case diff.Effect() == drift.Restart && vm.Running:
		return c.members.TakeDown(ctx, n, func(ctx context.Context) error {
			if err := c.nodes.UnmountRemoved(ctx, n, diff, vm); err != nil {
				return err
			}
			shape := func() error { return c.Proxmox.Shape(ctx, to, vm) }
			if len(to.GPUs) > len(vm.GPUs) {
				return c.moreCards(ctx, n, shape)
			}
			return shape()
		})
	case vm.Running:
		if err := c.nodes.UnmountRemoved(ctx, n, diff, vm); err != nil {
			return err
		}
	}
	return c.Proxmox.Shape(ctx, to, vm)
}

// replaced returns the fields of a diff that require a replacement.
func replaced(d drift.Diff) drift.Diff {
	return slices.DeleteFunc(slices.Clone(d), func(f drift.Field) bool { return f.Effect != drift.Replace })
}
