package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/proxmox"
)

// removedStep takes away machines of the cluster that are not in the file any more:
// drained, deleted from Kubernetes, destroyed. What only carries the cluster's tag stays.
func (c *Cluster) removedStep() *converge.Resource[[]proxmox.Summary] {
	return &converge.Resource[[]proxmox.Summary]{
		ID: "removed",
		Observe: func(ctx context.Context) ([]proxmox.Summary, error) {
			vms, err := c.Proxmox.VMs(ctx, c.spec.tag())
			var gone []proxmox.Summary
			for _, vm := range vms {
				if c.spec.names(vm.Name) || c.isTemplate(vm) || c.keeps(vm) {
					continue
				}
				// The list does not show whether its UUID is the marked one.
				sure, failed := c.Proxmox.Listed(ctx, c.spec.tag(), vm)
				if err = errors.Join(err, failed); sure != nil {
					gone = append(gone, vm)
				}
			}
			return gone, err
		},
		Diff: func(vms []proxmox.Summary) drift.Diff {
			var d drift.Diff
			for _, vm := range vms {
				d = append(d, drift.Field{Path: vm.Name, Have: fmt.Sprintf("VM %d on %s", vm.VMID, vm.Host), Effect: drift.Remove, Note: "no longer in the file"})
			}
			return d
		},
		Costs: c.costsOfRemoval,
		Apply: func(ctx context.Context, vms []proxmox.Summary) error {
			if err := c.serverLeft(ctx, vms); err != nil {
				return converge.Permanent(err)
			}
			for _, vm := range vms {
				if err := c.retire(ctx, vm); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// serverLeft refuses to remove machines when none of the file's servers exists:
// what goes would be the cluster itself, with its data.
func (c *Cluster) serverLeft(ctx context.Context, gone []proxmox.Summary) error {
	vms, err := c.Proxmox.VMs(ctx, c.spec.tag())
	if err != nil {
		return err
	}
	if c.spec.serverAmong(vms) {
		return nil
	}
	names := make([]string, len(gone))
	for i, vm := range gone {
		names[i] = vm.Name
	}
	return fmt.Errorf("none of the file's servers exists, and %s would be removed, with all of the cluster's data: "+
		"if servers were renamed, keep the name of one until another has joined; if all is to go, use cluster:down", strings.Join(names, ", "))
}

// serverAmong reports whether a server of the file is there: among the VMs, or external.
func (s *Spec) serverAmong(vms []proxmox.Summary) bool {
	return slices.ContainsFunc(s.Servers(), func(n Node) bool {
		return n.External || slices.ContainsFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name })
	})
}

// isTemplate reports whether a VM of ours is, or is becoming, a template.
func (c *Cluster) isTemplate(vm proxmox.Summary) bool { return vm.Template || c.baked(vm) }

// baked reports whether a template was made by us. One that image.template names
// carries our tag as well, and is its owner's to remove.
func (c *Cluster) baked(vm proxmox.Summary) bool {
	return strings.HasPrefix(vm.Name, c.spec.Name+bakedInfix)
}

// retire takes one machine out of the cluster and off its host.
func (c *Cluster) retire(ctx context.Context, vm proxmox.Summary) error {
	switch _, err := c.drain(ctx, vm.Name); {
	case errors.Is(err, errUnformed): // there is no cluster that knows it
	case errors.Is(err, errNoServer):
		return fmt.Errorf("%s is no longer in the file, and stays until it can be drained and deleted from Kubernetes: bring the servers up and run it again: %w", vm.Name, err)
	case err != nil:
		return err
	default:
		if err := c.deleteNode(ctx, vm.Name); err != nil {
			return err
		}
	}
	progress.Say(ctx, "destroying %s", vm.Name)
	return c.remove(ctx, vm)
}

// remove destroys a machine or template of ours.
func (c *Cluster) remove(ctx context.Context, seen proxmox.Summary) error {
	vm, err := c.Proxmox.Listed(ctx, c.spec.tag(), seen)
	if err != nil || vm == nil {
		return err
	}
	return c.wreck(ctx, vm)
}

// rest is what lies about on a host.
type rest struct {
	host      string
	volumes   []proxmox.Volume
	mappings  []string
	templates []proxmox.Summary
}

func (r rest) diff() drift.Diff {
	var d drift.Diff
	for _, v := range r.volumes {
		d = append(d, drift.Field{Have: v.ID + " on " + r.host, Effect: drift.Remove})
	}
	for _, m := range r.mappings {
		d = append(d, drift.Field{Path: "mapping/" + m, Have: "unused", Effect: drift.Remove})
	}
	for _, vm := range r.templates {
		d = append(d, drift.Field{Path: vm.Name, Have: fmt.Sprintf("template %d on %s", vm.VMID, r.host), Effect: drift.Remove})
	}
	return d
}

// leftoversStep clears what earlier files asked for: parts of the platform, seeds,
// mappings, templates. It looks once more before it does: between the look that was shown
// and the answer to a question may be hours.
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
			errs := []error{err} // one part that must stay does not keep the others
			for _, p := range u.parts {
				errs = append(errs, c.retirePart(ctx, p))
			}
			for _, p := range u.given {
				errs = append(errs, c.handOver(ctx, p))
			}
			return errors.Join(append(errs, c.clear(ctx, u.rests))...)
		},
	}
}

func diffRests(all []rest) drift.Diff {
	var d drift.Diff
	for _, r := range all {
		d = append(d, r.diff()...)
	}
	return d
}

// keep says what is still needed on a host.
type keep struct {
	files, mappings map[string]bool
	templates       map[string]bool // by name
	stay            map[string]bool // machines that keep data, by name: their seeds are theirs
	nothing         bool            // all is to go, clones and all
}

// wanted is what the file as it is now needs.
func (c *Cluster) wanted(ctx context.Context, host string) (keep, error) {
	k := keep{
		files:    map[string]bool{c.spec.imageFile(): true},
		mappings: map[string]bool{}, templates: map[string]bool{},
	}
	if c.spec.Image.Template == "" {
		t, err := c.template(ctx, host)
		if err != nil {
			return k, err
		}
		k.templates[t.name] = true
	}
	var err error
	if k.stay, err = c.kept(ctx, nil); err != nil {
		return k, err
	}
	for _, n := range c.spec.Machines() {
		if n.External {
			continue
		}
		k.mappings[c.spec.mappingID(n.Name)] = n.GPUs.Count > 0
		sd, err := c.seed(n) // hosts may share the storage
		if err != nil {
			return k, err
		}
		k.files[sd.file] = true
	}
	return k, nil
}

// rests looks for what is ours and not kept. A template that clones hang on stays:
// Proxmox could not remove it, and it is not in the way.
func (c *Cluster) rests(ctx context.Context, kept func(context.Context, string) (keep, error)) ([]rest, error) {
	if c.Proxmox == nil {
		return nil, nil
	}
	vms, err := c.Proxmox.VMs(ctx, c.spec.tag())
	if err != nil {
		return nil, err
	}
	var out []rest
	for i, host := range c.templateHosts() {
		k, err := kept(ctx, host)
		if err != nil {
			return nil, err
		}
		r := rest{host: host}
		if r.volumes, err = c.ownVolumes(ctx, host, k); err != nil {
			return nil, err
		}
		if i == 0 { // mappings belong to all hosts
			if r.mappings, err = c.ownMappings(ctx, host, k.mappings); err != nil {
				return nil, err
			}
		}
		for _, vm := range vms {
			if vm.Host == host && c.baked(vm) && !k.templates[vm.Name] {
				used, err := c.hungOn(ctx, vm, k.nothing, vms)
				if err != nil {
					return nil, err
				}
				if !used {
					r.templates = append(r.templates, vm)
				}
			}
		}
		out = append(out, r)
	}
	return out, c.spare(ctx, out, c.spec.tag())
}

// hungOn reports whether the disks of VMs hang on a template's. Where all is to go, those
// of others alone count, who have cloned it: theirs would go with it, or Proxmox refuses.
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
		progress.Say(ctx, "%s (VM %d) stays: disks of VM %d, which is not ours, hang on it", template.Name, template.VMID, clones[0])
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
			needed := k.files[v.Name()] || c.seedsOf(k.stay, v.Name())
			if v.VMID != 0 || !c.spec.ownsFile(v.Name()) || needed {
				continue
			}
			if inUse, err := c.inDrive(ctx, v, k); err != nil {
				return nil, err
			} else if !inUse {
				out = append(out, v)
			}
		}
	}
	return c.sparesTwins(ctx, host, out)
}

func (c *Cluster) ownMappings(ctx context.Context, host string, keep map[string]bool) ([]string, error) {
	all, err := c.Proxmox.Mappings(ctx, host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range all {
		if m.Description == c.spec.ourMapping() && !keep[m.ID] {
			out = append(out, m.ID)
		}
	}
	return out, nil
}

func (c *Cluster) clear(ctx context.Context, all []rest) error {
	for _, r := range all {
		for i := range r.templates {
			progress.Say(ctx, "removing template %s", r.templates[i].Name)
			if err := c.remove(ctx, r.templates[i]); err != nil {
				return err
			}
		}
		for _, v := range r.volumes {
			progress.Say(ctx, "removing %s", v.Name())
			if err := c.Proxmox.DeleteVolume(ctx, r.host, v.ID); err != nil {
				return err
			}
		}
		for _, m := range r.mappings {
			progress.Say(ctx, "removing mapping %s", m)
			if err := c.Proxmox.DeleteMapping(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}
