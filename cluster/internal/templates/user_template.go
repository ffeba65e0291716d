package templates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
)

// CheckSources returns an error, before anything changes, if a host has no template to clone
// machines from and cannot make one.
func (ts *Templates) CheckSources(ctx context.Context) error {
	errs := []error{ts.checkVMs(ctx)}
	hosts := ts.Hosts()
	if len(hosts) > 0 && ts.Spec.Image.Template == "" {
		errs, hosts = append(errs, ts.Proxmox.Storages.CheckImport()), nil
	}
	for _, host := range hosts {
		_, err := ts.existing(ctx, host)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkVMs looks for the templates of missing VMs that are not nodes.
func (ts *Templates) checkVMs(ctx context.Context) error {
	want := slices.DeleteFunc(slices.Clone(ts.Spec.Machines()), func(n spec.Node) bool { return n.Boot == nil || n.Boot.Template == "" })
	if len(want) == 0 {
		return nil
	}
	vms, err := ts.Proxmox.VMs.List(ctx, names.Tag(ts.Spec))
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range want {
		if !slices.ContainsFunc(vms, func(vm proxmox.Summary) bool { return vm.Name == n.Name }) {
			_, err := ts.sourceOf(ctx, n)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// existingStep finds the template that image.template names. It makes nothing: each clone
// installs what the template lacks.
func (ts *Templates) existingStep(host string) *converge.Resource[*proxmox.VM] {
	return &converge.Resource[*proxmox.VM]{
		ID: "template/" + host,
		Observe: func(ctx context.Context) (*proxmox.VM, error) {
			vm, err := ts.existing(ctx, host)
			if err != nil {
				return nil, converge.Permanent(err)
			}
			converge.Progressf(ctx, "%s, which homelab did not create", vm)
			return vm, nil
		},
		Diff: func(*proxmox.VM) converge.Diff { return nil },
	}
}

// existing returns the template of image.template from which a host's nodes are cloned.
func (ts *Templates) existing(ctx context.Context, host string) (*proxmox.VM, error) {
	return ts.find(ctx, reference{"image.template:", ts.Spec.Image.Template, host, func(vm *proxmox.VM) []string { return unfitForNodes(ts.Spec, host, vm) }})
}

// sourceOf returns the template which homelab did not make that a machine is cloned from: that of all nodes, or a VM's own.
func (ts *Templates) sourceOf(ctx context.Context, n spec.Node) (*proxmox.VM, error) {
	if n.FromTemplate() {
		return ts.existing(ctx, n.Host)
	}
	return ts.find(ctx, reference{"vms." + n.Name + ".template:", n.Boot.Template, n.Host, func(vm *proxmox.VM) []string {
		if n.HasGPUs() && n.GPUs.PCIe.IsOn() && vm.BIOS != "ovmf" {
			return []string{"its firmware is SeaBIOS, which cannot map the memory of large GPUs: make a template whose system was installed with --bios ovmf"}
		}
		return nil
	}})
}

// reference is a place of the file that names a template of Proxmox's, for machines of a host.
type reference struct {
	key   string // image.template:
	name  string // the template's name or VMID
	host  string
	unfit func(vm *proxmox.VM) []string // reasons beside those of all
}

// find returns the template: the host's own, or one of another host whose disks are on storages that both share.
func (ts *Templates) find(ctx context.Context, ref reference) (*proxmox.VM, error) {
	all, err := ts.Proxmox.Hosts.Residents(ctx)
	if err != nil {
		return nil, err
	}
	var here, elsewhere []proxmox.Resident
	for _, r := range all {
		switch {
		case r.Container || r.Name != ref.name && strconv.Itoa(r.VMID) != ref.name:
		case r.Host == ref.host:
			here = append(here, r)
		default:
			elsewhere = append(elsewhere, r)
		}
	}
	switch {
	case len(here) > 1:
		return nil, fmt.Errorf("%s %s has several VMs called %s: %s; write the VMID of one", ref.key, ref.host, ref.name, listResidents(here))
	case len(here) == 1:
		return ts.checkTemplate(ctx, ref, here[0].VMID)
	case len(elsewhere) == 0:
		return nil, fmt.Errorf("%s there is no VM %s, or the token may not see it (VM.Audit); %s", ref.key, ref.name, templatesThere(all))
	}
	var problem error
	for _, r := range elsewhere {
		vm, err := ts.checkTemplate(ctx, ref, r.VMID)
		if err != nil {
			problem = errors.Join(problem, err)
			continue
		}
		c, err := ts.clones(ctx, vm, ref.host, "")
		if err != nil {
			return nil, err
		}
		if c.Mode != proxmox.NoClone {
			return vm, nil
		}
		problem = errors.Join(problem, fmt.Errorf("%s %s has no template %s: %s\n  %s; write the name instead of a VMID", ref.key, ref.host, ref.name, c.Reason, c.Cure))
	}
	return nil, problem
}

// checkTemplate returns a template if the machines of a reference can be cloned from it.
func (ts *Templates) checkTemplate(ctx context.Context, ref reference, vmid int) (*proxmox.VM, error) {
	vm, err := ts.Proxmox.VMs.GetByID(ctx, vmid)
	if err != nil {
		return nil, err
	}
	if !vm.Template {
		return nil, fmt.Errorf("%s %s is not a template; to make it one, switch it off and run on %s: qm template %d", ref.key, vm, vm.Host, vm.VMID)
	}
	unbased, err := ts.Proxmox.Templates.UnconvertedDisks(ctx, vm)
	if err != nil {
		return nil, err
	}
	if problems := append(unfitReasons(vm, unbased), ref.unfit(vm)...); len(problems) > 0 {
		return nil, fmt.Errorf("%s %s is not usable for its clones:\n  %s", ref.key, vm, strings.Join(problems, "\n  "))
	}
	return vm, nil
}

// unfitReasons says what is wrong with a template, with the commands that fix it. Settings that a
// clone can get on its own are not a reason: the agent's channel, the serial console, q35, the
// disk for the firmware's variables.
func unfitReasons(vm *proxmox.VM, unbased []string) []string {
	var out []string
	bad := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if vm.Locked != "" {
		bad("it is locked (%s): qm unlock %d, when no task works on it", vm.Locked, vm.VMID)
	}
	if _, ok := vm.Disk("scsi0"); !ok {
		bad("it has no disk at scsi0, which its clones boot from: recreate it with --scsi0, --scsihw virtio-scsi-single and --boot order=scsi0")
	}
	if len(vm.Disks) > 1 {
		bad("it has further disks, at slots that the clones' own disks need: qm set %d --delete %s", vm.VMID, printable.Word(vm.Disks[1].Slot))
	}
	if len(unbased) > 0 {
		bad("its disks are not base volumes for linked clones, because its conversion to a template is incomplete: qm template %d --disk %s", vm.VMID, printable.Word(unbased[0]))
	}
	if drives := vm.CloudInitDrives(); len(drives) > 0 {
		bad("Proxmox's cloud-init drive at %s would contradict the clones' seed: qm set %d --delete %s", drives[0], vm.VMID, printable.Word(drives[0]))
	}
	if len(vm.GPUs) > 0 {
		bad("it passes a device through, which its clones cannot share: qm set %d --delete %s", vm.VMID, printable.Word(vm.GPUs[0].Slot))
	}
	return out
}

// unfitForNodes says why nodes of a host, with a driver or with GPUs, cannot be clones of a template.
func unfitForNodes(s *spec.Spec, host string, vm *proxmox.VM) (out []string) {
	of := func(n spec.Node) bool { return n.OnProxmox() && n.Host == host && n.HasGPUs() }
	if slices.ContainsFunc(s.Nodes, of) && BuildsModules(s) && vm.SecureBoot {
		out = append(out, SecureBootOn("each clone"))
	}
	if slices.ContainsFunc(s.Nodes, func(n spec.Node) bool { return of(n) && n.GPUs.PCIe.IsOn() }) && vm.BIOS != "ovmf" {
		storage := "STORAGE"
		if d, ok := vm.Disk("scsi0"); ok {
			storage = d.Storage
		}
		out = append(out, fmt.Sprintf("its firmware is SeaBIOS, which cannot map the memory of large GPUs (BAR1 is 0M); Ubuntu's cloud images boot with OVMF too: "+
			"qm set %d --machine q35 --bios ovmf --efidisk0 %s:0,efitype=4m", vm.VMID, printable.Word(storage)))
	}
	return out
}

// templatesThere lists the templates that the user may have meant.
func templatesThere(all []proxmox.Resident) string {
	templates := slices.DeleteFunc(slices.Clone(all), func(r proxmox.Resident) bool { return !r.Template || r.Container })
	if len(templates) == 0 {
		return "there is no template: remove image.template, and cluster:up bakes one"
	}
	return "templates are " + listResidents(templates)
}

func listResidents(all []proxmox.Resident) string {
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = fmt.Sprintf("%d %q on %s", r.VMID, r.Name, r.Host)
	}
	return strings.Join(names, ", ")
}
