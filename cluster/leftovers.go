package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/drift"
	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// leftoversStep removes what only earlier files needed: parts of the platform, seeds,
// mappings, templates. It checks again before it removes anything: hours may pass between the
// plan and the answer to a question.
func (c *Cluster) leftoversStep() *converge.Resource[unneeded] {
	return &converge.Resource[unneeded]{
		ID:      "leftovers",
		Observe: c.leftOver,
		Diff:    unneeded.diff,
		Costs:   c.costsOfLeftovers,
		Apply: func(ctx context.Context, seen unneeded) error {
			now, err := c.leftOver(ctx)
			if err != nil {
				return err
			}
			u, err := seen.still(now)
			errs := []error{err} // one part that must stay does not stop the removal of others
			for _, p := range u.parts {
				if err := converge.Confirm(ctx); err != nil { // the ones before took a while
					return errors.Join(append(errs, err)...)
				}
				errs = append(errs, c.parts.RetirePart(ctx, p))
			}
			for _, p := range u.given {
				errs = append(errs, c.parts.HandOver(ctx, p))
			}
			return errors.Join(append(errs, c.templates.Clear(ctx, u.rests))...)
		},
	}
}

func diffRests(all []templates.Rest) drift.Diff {
	var d drift.Diff
	for _, r := range all {
		d = append(d, r.Diff()...)
	}
	return d
}

// keep lists what is still needed on a host.
type keep struct {
	files, mappings map[string]bool
	templates       map[string]bool // by name
	stay            map[string]bool // machines that keep data, by name: they keep their seeds
	nothing         bool            // everything is removed, including clones
}

// wanted is what the current file needs.
func (c *Cluster) wanted(ctx context.Context, host string) (keep, error) {
	k := keep{
		files:    map[string]bool{names.Image(c.spec): true},
		mappings: map[string]bool{}, templates: map[string]bool{},
	}
	if c.spec.Image.Template == "" {
		all, err := c.templates.Templates(ctx, host)
		if err != nil {
			return k, err
		}
		for _, t := range all {
			k.templates[t.Name] = true
		}
	}
	var err error
	if k.stay, err = c.kept(ctx, nil); err != nil {
		return k, err
	}
	for _, n := range c.spec.Machines() {
		if n.External {
			continue
		}
		k.mappings[names.Mapping(c.spec, n.Name)] = n.GPUs.Count > 0
		sd, err := c.seeds.Seed(n) // hosts may share the storage
		if err != nil {
			return k, err
		}
		k.files[sd.File] = true
	}
	return k, nil
}

// rests finds what the cluster owns and no longer needs. A template with linked clones stays:
// Proxmox could not remove it, and it does no harm.
func (c *Cluster) rests(ctx context.Context, kept func(context.Context, string) (keep, error)) ([]templates.Rest, error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	vms, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
	if err != nil {
		return nil, err
	}
	var out []templates.Rest
	for i, host := range c.templates.Hosts() {
		k, err := kept(ctx, host)
		if err != nil {
			return nil, err
		}
		r := templates.Rest{Host: host}
		if r.Volumes, err = c.ownVolumes(ctx, host, k); err != nil {
			return nil, err
		}
		if i == 0 { // mappings belong to all hosts
			if r.Mappings, err = c.ownMappings(ctx, host, k.mappings); err != nil {
				return nil, err
			}
		}
		for _, vm := range vms {
			if vm.Host == host && c.templates.Baked(vm) && !k.templates[vm.Name] {
				used, err := c.hungOn(ctx, vm, k.nothing, vms)
				if err != nil {
					return nil, err
				}
				if !used {
					r.Templates = append(r.Templates, vm)
				}
			}
		}
		out = append(out, r)
	}
	return out, c.templates.KeepUsed(ctx, out, names.Tag(c.spec))
}

// hungOn reports whether VMs have disks that are linked clones of a template. If everything is
// removed, only VMs of other owners count: their disks would be lost, or Proxmox refuses.
func (c *Cluster) hungOn(ctx context.Context, template proxmox.Summary, nothing bool, ours []proxmox.Summary) (bool, error) {
	if !nothing {
		return c.Proxmox.HasClones(ctx, &template)
	}
	all, err := c.Proxmox.Residents(ctx)
	if err != nil {
		return false, err
	}
	others := map[int]bool{}
	for _, r := range all {
		others[r.VMID] = !r.Container
	}
	for _, vm := range ours {
		delete(others, vm.VMID)
	}
	if len(others) == 0 {
		return false, nil
	}
	clones, err := c.Proxmox.LinkedClones(ctx, &template)
	clones = slices.DeleteFunc(clones, func(vmid int) bool { return !others[vmid] })
	if len(clones) > 0 {
		progress.Say(ctx, "%s (VM %d) stays: disks of VM %d, which this cluster does not own, are linked clones of it", template.Name, template.VMID, clones[0])
	}
	return len(clones) > 0, err
}

func (c *Cluster) ownVolumes(ctx context.Context, host string, k keep) ([]proxmox.Volume, error) {
	var out []proxmox.Volume
	storages := []string{c.spec.Image.SeedStorage, c.spec.Image.ImageStorage}
	slices.Sort(storages)
	for _, storage := range slices.Compact(storages) {
		if storage == "" {
			continue
		}
		volumes, err := c.Proxmox.Volumes(ctx, host, storage, "")
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			needed := k.files[v.Name()] || firstboot.Of(c.spec, k.stay, v.Name())
			if v.VMID != 0 || !names.OwnsFile(c.spec, v.Name()) || needed {
				continue
			}
			if inUse, err := c.inDrive(ctx, v, k); err != nil {
				return nil, err
			} else if !inUse {
				out = append(out, v)
			}
		}
	}
	return c.seeds.KeepForeign(ctx, host, out)
}

func (c *Cluster) ownMappings(ctx context.Context, host string, keep map[string]bool) ([]string, error) {
	all, err := c.Proxmox.Mappings(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all {
		if m.Description == names.MappingNote(c.spec) && !keep[m.ID] {
			out = append(out, m.ID)
		}
	}
	return out, nil
}

// inDrive reports whether an outdated seed is in the drive of a machine of the file, which
// still needs it: Proxmox does not start a VM with a missing ISO in its drive.
func (c *Cluster) inDrive(ctx context.Context, v proxmox.Volume, k keep) (bool, error) {
	parts := strings.Split(v.Name(), "_") // ownsFile has checked the format
	if k.nothing || !c.spec.HasMachine(parts[2]) {
		return false, nil
	}
	vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), parts[2])
	return vm != nil && proxmox.Volume{ID: vm.Seed}.Name() == v.Name(), err
}
