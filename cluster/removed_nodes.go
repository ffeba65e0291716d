package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// removedStep removes machines of the cluster that are no longer in the file: it drains
// them, deletes them from Kubernetes and destroys them. VMs with only the cluster's tag stay.
func (c *holdings) removedStep() *converge.Resource[[]proxmox.Summary] {
	return &converge.Resource[[]proxmox.Summary]{
		ID: "removed",
		Observe: func(ctx context.Context) ([]proxmox.Summary, error) {
			vms, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
			var gone []proxmox.Summary
			for _, vm := range vms {
				if c.spec.HasMachine(vm.Name) || c.templates.IsTemplate(vm) || c.holdsData(vm) {
					continue
				}
				// The list does not show whether its UUID is the marked one.
				sure, failed := c.Proxmox.VMs.GetFromSummary(ctx, names.Tag(c.spec), vm)
				if err = errors.Join(err, failed, c.protectedError(sure)); sure != nil {
					gone = append(gone, vm)
				}
			}
			return gone, err
		},
		Diff: func(vms []proxmox.Summary) converge.Diff {
			var d converge.Diff
			for _, vm := range vms {
				d = append(d, converge.Field{Path: vm.Name, Have: fmt.Sprintf("VM %d on %s", vm.VMID, vm.Host), Effect: converge.Remove, Note: "no longer in the file"})
			}
			return d
		},
		Costs: c.costsOfRemoval,
		Apply: func(ctx context.Context, vms []proxmox.Summary) error {
			if err := c.checkServerLeft(ctx, vms); err != nil {
				return converge.Permanent(err)
			}
			for _, vm := range vms {
				if err := converge.Confirm(ctx); err != nil { // the ones before took a while
					return err
				}
				if err := c.retire(ctx, vm); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// protectedError refuses to destroy a VM that is protected although the file does not say so, before
// anything of it is stopped: somebody wants it to stay.
func (c *site) protectedError(vm *proxmox.VM) error {
	if vm == nil || !vm.Protected || c.spec.OwnsProtection(vm.Name) {
		return nil
	}
	return vm.ProtectedError()
}

// checkServerLeft refuses to remove machines if none of the file's servers exists: that would
// remove the cluster itself, with its data.
func (c *holdings) checkServerLeft(ctx context.Context, gone []proxmox.Summary) error {
	vms, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	if err != nil {
		return err
	}
	return members.CheckServerLeft(c.spec, namesOf(vms), namesOf(gone))
}

func namesOf(vms []proxmox.Summary) []string {
	var out []string
	for _, vm := range vms {
		out = append(out, vm.Name)
	}
	return out
}

// retire removes one machine from the cluster and from its host.
func (c *holdings) retire(ctx context.Context, vm proxmox.Summary) error {
	if err := c.members.Leave(ctx, vm.Name, isNoNode(vm.Tags)); err != nil {
		return err
	}
	converge.Progressf(ctx, "destroying %s", vm.Name)
	return c.templates.Remove(ctx, vm)
}

// costsOfRemoval is the data that is lost with machines that are no longer in the file.
func (c *holdings) costsOfRemoval(ctx context.Context, gone []proxmox.Summary, _ converge.Diff) []converge.Cost {
	var out []converge.Cost
	for _, s := range gone {
		vm, err := c.Proxmox.VMs.GetFromSummary(ctx, names.Tag(c.spec), s)
		if vm == nil && err == nil {
			continue
		}
		out = append(out, c.destroys(ctx, s.Name, "no longer in the file", vm, err))
	}
	return out
}

// destroys is the cost of destroying a machine with its disks. err is why it was unreadable.
func (c *site) destroys(ctx context.Context, name, why string, vm *proxmox.VM, err error) converge.Cost {
	if name == "" && vm != nil {
		name = fmt.Sprintf("vm%d", vm.VMID)
	}
	cost := converge.Cost{
		Machine: cmp.Or(name, "nameless"), Object: members.SortNode, Kind: converge.CostDestroy, Reason: why,
	}
	if vm == nil || !isNoNode(vm.Tags) {
		cost.Users = c.members.Users(ctx, func(w *workload.Work) []converge.Loss {
			cost.Holds = w.Volumes(name)
			return w.LossesOn(name)
		})
	}
	if err != nil {
		cost.Holds = append(cost.Holds, converge.Loss{Text: "its disks are not readable: " + printable.FirstLine(err.Error()), Unknown: true})
	}
	if vm == nil {
		return cost
	}
	cost.Identity = vm.Identity()
	if vm.Protected {
		cost.Reason = strings.TrimPrefix(why+"; its protection is lifted", "; ")
	}
	if d, ok := vm.Disk(bootDisk); ok && isNoNode(vm.Tags) { // a node's is made again from the template
		cost.Holds = append(cost.Holds, converge.Loss{Text: fmt.Sprintf("disk os (%s)", d.Size), ID: d.Volume})
	}
	for _, d := range vm.DoomedDisks() {
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
