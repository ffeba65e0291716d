package templates

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
)

// Leftover is a leftover on a host.
type Leftover struct {
	Host      string
	Volumes   []proxmox.Volume
	Mappings  []string
	Templates []proxmox.Summary
}

func (ts *Templates) RemoveLeftovers(ctx context.Context, all []Leftover) error {
	for _, r := range all {
		for i := range r.Templates {
			converge.Progressf(ctx, "removing template %s", r.Templates[i].Name)
			if err := ts.Remove(ctx, r.Templates[i]); err != nil {
				return err
			}
		}
		for _, v := range r.Volumes {
			converge.Progressf(ctx, "removing %s", v.Name())
			if err := ts.Proxmox.Storages.Delete(ctx, r.Host, v.ID); err != nil {
				return err
			}
		}
		for _, m := range r.Mappings {
			converge.Progressf(ctx, "removing mapping %s", m)
			remove := ts.Proxmox.PCI.DeleteMapping
			id, usb := strings.CutPrefix(m, proxmox.OfUSB)
			if usb {
				remove = ts.Proxmox.PCI.DeleteUSBMapping
			}
			if err := remove(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// IsTemplate reports whether a VM of this cluster is, or is becoming, a template.
func (ts *Templates) IsTemplate(vm proxmox.Summary) bool { return vm.Template || ts.Baked(vm) }

// Baked reports whether this cluster baked a template. A template that image.template names has
// the cluster's tag too, but only its owner removes it.
func (ts *Templates) Baked(vm proxmox.Summary) bool {
	return strings.HasPrefix(vm.Name, ts.Spec.Name+names.TemplateInfix)
}

// Remove destroys a machine or template of this cluster.
func (ts *Templates) Remove(ctx context.Context, seen proxmox.Summary) error {
	vm, err := ts.Proxmox.VMs.GetFromSummary(ctx, names.Tag(ts.Spec), seen)
	if err != nil || vm == nil {
		return err
	}
	return ts.Seeds.DestroyVM(ctx, vm)
}

// OwnVMIDs are the VMIDs of this cluster's machines and templates.
func (ts *Templates) OwnVMIDs(ctx context.Context) (map[int]bool, error) {
	vms, err := ts.Proxmox.VMs.List(ctx, names.Tag(ts.Spec))
	out := make(map[int]bool, len(vms))
	for _, vm := range vms {
		out[vm.VMID] = true
	}
	return out, err
}

func (r Leftover) Diff() converge.Diff {
	var d converge.Diff
	for _, v := range r.Volumes {
		d = append(d, converge.Field{Have: v.ID + " on " + r.Host, Effect: converge.Remove})
	}
	for _, m := range r.Mappings {
		d = append(d, converge.Field{Path: "mapping/" + m, Have: "unused", Effect: converge.Remove})
	}
	for _, vm := range r.Templates {
		d = append(d, converge.Field{Path: vm.Name, Have: fmt.Sprintf("template %d on %s", vm.VMID, r.Host), Effect: converge.Remove})
	}
	return d
}
