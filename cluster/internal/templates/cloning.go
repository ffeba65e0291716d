package templates

import (
	"context"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Cloning says how the machine of a node gets its disks from its host's template, which need not
// exist yet.
func (ts *Templates) Cloning(ctx context.Context, n spec.Node) (proxmox.Cloning, error) {
	if ts.Spec.Image.Template != "" {
		vm, err := ts.existing(ctx, n.Host)
		if err != nil {
			return proxmox.Cloning{}, err
		}
		return ts.clones(ctx, vm, n.Host, n.OSDisk.Storage)
	}
	storages, err := ts.Proxmox.Storages.List(ctx, n.Host)
	if err != nil {
		return proxmox.Cloning{}, err
	}
	planned := proxmox.PlannedCloneSource("the template of "+n.Host, n.Host, ts.Spec.TemplateStorage(n.Host), storages)
	return planned.CloneTo(n.Host, storages, n.OSDisk.Storage), nil
}

// clones says how a template is cloned to a storage of a host; "" is the template's own storage.
func (ts *Templates) clones(ctx context.Context, template *proxmox.VM, host, storage string) (proxmox.Cloning, error) {
	at, err := ts.Proxmox.Storages.List(ctx, template.Host)
	if err != nil {
		return proxmox.Cloning{}, err
	}
	there, err := ts.Proxmox.Storages.List(ctx, host)
	return proxmox.NewCloneSource(template, at).CloneTo(host, there, storage), err
}

// Clones says how the missing machines of a host get their disks, by name.
func (ts *Templates) Clones(ctx context.Context, host string) (map[string]proxmox.Cloning, error) {
	vms, err := ts.Proxmox.VMs.List(ctx, names.Tag(ts.Spec))
	if err != nil {
		return nil, err
	}
	out := map[string]proxmox.Cloning{}
	for _, n := range ts.Spec.Machines() {
		there := slices.ContainsFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name })
		if !n.FromTemplate() || n.Adopt || n.Host != host || there {
			continue
		}
		if out[n.Name], err = ts.Cloning(ctx, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}
