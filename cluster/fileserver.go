package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// The NFS server that homelab makes is a machine like a node's, but not a node: it is cloned from
// the same template and never runs K3s. The data on its data disk belongs to the users and
// outlives the cluster. Only a command that names the machine for this purpose destroys it.

// KeptMachines are the machines with data that Down leaves alone unless it gets their names.
func (c *Cluster) KeptMachines(ctx context.Context) ([]proxmox.Summary, error) {
	return c.site.flow().machinesWithData(ctx)
}

func (c *site) machinesWithData(ctx context.Context) ([]proxmox.Summary, error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	vms, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	return slices.DeleteFunc(vms, func(vm proxmox.Summary) bool { return !c.holdsData(vm) }), err
}

// holdsData reports whether a machine of this cluster holds data that nobody asked to destroy.
func (c *site) holdsData(vm proxmox.Summary) bool {
	own := slices.ContainsFunc(c.spec.Machines(), func(n spec.Node) bool { return n.Role == spec.FileServer && n.Name == vm.Name })
	return !vm.Template && (own || slices.Contains(vm.Tags, spec.KeepsData))
}

// keptMachines sorts what Down does with the machines that keep data: also names those that are
// destroyed with the rest.
func (c *site) keptMachines(ctx context.Context, also []string) (map[string]bool, error) {
	all, err := c.machinesWithData(ctx)
	if err != nil {
		return nil, err
	}
	stay := map[string]bool{}
	for _, vm := range all {
		stay[vm.Name] = true
	}
	for _, name := range also {
		if !stay[name] {
			return nil, &RefusedError{Node: name, Reason: fmt.Sprintf("no machine of %s with that name keeps data, so nothing is destroyed", c.spec.Name)}
		}
		delete(stay, name)
	}
	return stay, nil
}

// orphans finds machines with data that are no longer in the file. They stay. If the file wants
// another machine instead of one, that is an error, because the new one would start empty.
func (c *holdings) orphans(ctx context.Context) (found []preflight.Finding, err error) {
	all, err := c.machinesWithData(ctx)
	if err != nil {
		return nil, err
	}
	nfs := c.spec.Platform.Storage.NFS
	for _, vm := range all {
		if c.spec.HasMachine(vm.Name) {
			continue
		}
		seen := fmt.Sprintf("the NFS server %s (VM %d on %s) of this cluster is no longer in the file", vm.Name, vm.VMID, vm.Host)
		if nfs != nil && nfs.VM != nil {
			return nil, converge.Permanent(fmt.Errorf("%s, and %s would start empty instead: write name: %s under storage.nfs.vm, "+
				"or save its data and destroy it in Proxmox", seen, nfs.VM.Name, vm.Name))
		}
		found = append(found, preflight.Finding{
			ID: "data", Title: "machines with data are in the file", Subject: vm.Name, Verdict: preflight.Warning,
			Evidence: seen + ", and stays as it is, with its data", Cure: "name it again under storage.nfs.vm, or save its data and destroy it in Proxmox",
		})
	}
	return found, nil
}
