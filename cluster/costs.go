package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/placement"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/proxmox"
)

// What each step interrupts or destroys; docs/consent.md has the table. A step that drains,
// stops or deletes something declares it here, and does it only with consent.

// summary names the fields of a diff that require a restart.
func summary(d drift.Diff) string {
	var paths []string
	for _, f := range d {
		if f.Effect == drift.Restart && !slices.Contains(paths, f.Path) {
			paths = append(paths, f.Path)
		}
	}
	return "other " + strings.Join(paths, ", ")
}

// costsOfVM is the cost of changing a running VM: its restart, or the removal of a disk.
func (c *Cluster) costsOfVM(n spec.Node) func(context.Context, *proxmox.VM, drift.Diff) []converge.Cost {
	return func(ctx context.Context, vm *proxmox.VM, d drift.Diff) []converge.Cost {
		if vm == nil || !vm.Running || d.Effect() > drift.Restart { // there is no VM, or the change is refused
			return nil
		}
		var out []converge.Cost
		if d.Effect() == drift.Restart {
			out = c.members.Stops(ctx, summary(d), n.Name)
		}
		for _, f := range d {
			if slot, _ := strings.CutPrefix(f.Path, "disk/"); f.Want == nodes.Detached {
				disk, _ := vm.Disk(slot)
				out = append(out, converge.Cost{
					Machine: "disk " + disk.Serial + " of " + n.Name, Thing: disk.Volume, Kind: converge.Stops, Why: "no longer in the file: detached, its volume is kept",
					Holds: []converge.Loss{{Text: disk.Size.String(), ID: disk.Volume}},
				})
			}
		}
		return out
	}
}

// costsOfCards is the cost of moving cards: a restart of the node.
func (c *Cluster) costsOfCards(n spec.Node) func(context.Context, *placement.Allotment, drift.Diff) []converge.Cost {
	return func(ctx context.Context, a *placement.Allotment, _ drift.Diff) []converge.Cost {
		if len(n.GPUs.Mapping) > 0 {
			return nil // refused
		}
		why := "other cards"
		if deleted, known, _ := c.mappingDeleted(ctx, n, a); known {
			return nil
		} else if deleted {
			why = "its resource mapping was deleted, and which of the host's cards it has cannot be seen"
		}
		var have []string
		if m := placement.Mapping(a.Mappings, names.Mapping(c.spec, n.Name)); m != nil {
			have = placement.Addresses(m, n.Host)
		}
		if grows(c.mapping(n, a), n.Host, have) {
			return nil // if the node only gets more cards, the VM's own step restarts it
		}
		return c.members.Stops(ctx, why, c.running(ctx, n.Name)...)
	}
}

// running are the nodes among names whose machine runs and has cards, or may have them.
func (c *Cluster) running(ctx context.Context, names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		n, _ := c.spec.Node(name)
		vm, err := c.holding(ctx, n)
		return err == nil && (vm == nil || !vm.Running)
	})
}

// costsOfDriver is the cost of another driver on a joined node: a restart loads it.
func (c *Cluster) costsOfDriver(n spec.Node) func(context.Context, driverSeen, drift.Diff) []converge.Cost {
	return func(ctx context.Context, s driverSeen, _ drift.Diff) []converge.Cost {
		if !s.upgrades() {
			if stillDivided(n, s.DriverState).Empty() {
				return nil
			}
			return c.costsOfDividing(ctx, n)
		}
		if nodes.SeenOf(ctx, n.Name).Absent.Load() {
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

// costsOfRemoval is the data that is lost with machines that are no longer in the file.
func (c *Cluster) costsOfRemoval(ctx context.Context, gone []proxmox.Summary, _ drift.Diff) []converge.Cost {
	var out []converge.Cost
	for _, s := range gone {
		vm, err := c.Proxmox.Listed(ctx, names.Tag(c.spec), s)
		if vm == nil && err == nil {
			continue
		}
		out = append(out, c.destroys(ctx, s.Name, "no longer in the file", vm, err))
	}
	return out
}

// destroys is the cost of destroying a machine with its disks. err is why it was unreadable.
func (c *Cluster) destroys(ctx context.Context, name, why string, vm *proxmox.VM, err error) converge.Cost {
	if name == "" && vm != nil {
		name = fmt.Sprintf("vm%d", vm.VMID)
	}
	cost := converge.Cost{
		Machine: cmp.Or(name, "nameless"), Sort: members.SortNode, Kind: converge.Destroys, Why: why,
	}
	cost.Users = c.members.Users(ctx, func(w *consent.Work) []converge.Loss {
		cost.Holds = w.Volumes(name)
		return w.On(name)
	})
	if err != nil {
		cost.Holds = append(cost.Holds, converge.Loss{Text: "its disks are not readable: " + printable.FirstLine(err.Error()), Unknown: true})
	}
	if vm == nil {
		return cost
	}
	cost.Thing = vm.Identity()
	for _, d := range vm.Extra() {
		cost.Holds = append(cost.Holds, converge.Loss{Text: diskWords(d), ID: d.Volume})
	}
	for _, volume := range vm.Unused {
		cost.Holds = append(cost.Holds, converge.Loss{Text: "the unused disk " + volume, ID: volume})
	}
	return cost
}

// diskWords names a disk of a machine, for the question whether to destroy it.
func diskWords(d proxmox.Disk) string {
	if d.Serial == "" {
		return fmt.Sprintf("disk %s (%s), which the file does not name", d.Slot, d.Size)
	}
	return fmt.Sprintf("disk %s (%s)", d.Serial, d.Size)
}
