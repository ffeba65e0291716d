package templates

import (
	"context"
	_ "embed" // seal.sh
	"fmt"
	"path"
	"slices"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

//go:embed seal.sh
var sealScript string

// template is the wanted template of a host.
type template struct {
	host, Name string
	holds      Contents
	driver     nvidia.Recipe // zero if none is baked
}

// Hosts are the hosts that need a template, sorted.
func (ts *Templates) Hosts() []string {
	var hosts []string
	for _, n := range ts.Spec.Machines() {
		if !n.External {
			hosts = append(hosts, n.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Template describes a host's template. Its name contains the digest of everything that goes
// into it, so a changed input makes another template.
func (ts *Templates) Template(ctx context.Context, host string) (template, error) {
	driver, err := ts.Driver(ctx, host, nvidia.DriverState{System: firstboot.Distro(ts.Spec).ID})
	if err != nil {
		return template{}, err
	}
	return describeTemplate(ts.Spec, host, driver)
}

// describeTemplate is the pure part of Template. The name does not cover what clones do not
// get: the sources of the image and the packages, and the storage and the address of the
// template.
func describeTemplate(s *spec.Spec, host string, driver nvidia.Recipe) (template, error) {
	t := template{host: host, driver: driver, holds: Contents{
		Image: path.Base(s.Image.URL), SHA256: s.Image.SHA256, SHA512: s.Image.SHA512, Packages: firstboot.BakedPackages(s), K3s: bakedK3s(s),
	}}
	if driver.Branch != 0 {
		t.holds.Driver, t.holds.Toolkit = driver.String(), nvidia.ToolkitVersion
	}
	doc, err := cloudinit.RenderTemplate(cloudinit.Bake{Hostname: names.Bake, InstanceID: names.Bake, Packages: t.holds.Packages})
	if err != nil {
		return t, err
	}
	digest, err := doc.Digest()
	if err != nil {
		return t, err
	}
	image := s.Image.SHA256 + s.Image.SHA512
	if image == "" { // the lab's image, identified by its address
		image = s.Image.URL
	}
	release := ""
	if t.holds.K3s != "" { // the release has its checksums
		r := k3s.Release{Version: t.holds.K3s}
		release = r.URL(r.Images())
	}
	inputs := fmt.Sprintln(digest, image, s.Image.SecureBoot, release, t.holds.Driver, t.holds.Toolkit)
	t.Name = names.Template(s, host, cloudinit.Digest([]byte(inputs), []byte(sealScript)))
	return t, nil
}

// templateSeen is a host's template, nil if it does not exist, and whether a machine must be
// cloned from it.
type templateSeen struct {
	vm      *proxmox.Summary
	wanted  bool
	unbased []string // disks that are not base images for clones yet
	hasSeed bool     // it is half-made and still has its seed
	// stale are half-made templates of an earlier file. They block a new bake: they run with
	// the same address.
	stale []proxmox.Summary
}

// Step bakes a host's template, or finds it. While every machine of the host exists, no
// template is needed: another K3s or driver in the file, or one GPU node less, is no reason to
// bake. again are nodes whose machines exist and are made again.
func (ts *Templates) Step(host string, again ...string) converge.Step {
	if ts.Spec.Image.Template != "" {
		return ts.existingStep(host)
	}
	name := ""
	return &converge.Resource[templateSeen]{
		ID: "template/" + host,
		Observe: func(ctx context.Context) (templateSeen, error) {
			t, err := ts.Template(ctx, host)
			if err != nil {
				return templateSeen{}, err
			}
			name = t.Name
			vms, err := ts.Proxmox.VMs(ctx, names.Tag(ts.Spec))
			seen, there := templateSeen{}, map[string]bool{}
			for i, vm := range vms {
				there[vm.Name] = true
				if vm.Name == t.Name && vm.Host == host {
					seen.vm = &vms[i]
				}
			}
			for _, name := range again {
				delete(there, name)
			}
			_, seen.wanted = missingNode(ts.Spec, host, there)
			if err == nil && seen.wanted && seen.vm == nil {
				seen.stale = ts.staleBakes(host, vms)
			}
			if err == nil && seen.wanted && seen.vm != nil {
				var vm *proxmox.VM
				if vm, err = ts.Proxmox.ByID(ctx, seen.vm.VMID); err == nil {
					seen.hasSeed = !vm.Template && vm.Seed != ""
					if seen.vm.Template {
						seen.unbased, err = ts.Proxmox.Unbased(ctx, vm)
					}
				}
			}
			return seen, err
		},
		Diff: func(s templateSeen) drift.Diff {
			switch {
			case s.vm == nil && s.wanted:
				d := drift.Missing(name)
				for _, vm := range s.stale {
					d = append(d, drift.Field{Path: vm.Name, Have: fmt.Sprintf("VM %d, half-made", vm.VMID), Effect: drift.Remove, Note: "from an earlier file"})
				}
				return d
			case s.vm != nil && !s.vm.Template, len(s.unbased) > 0:
				f := drift.Field{Have: "half-made", Want: name, Effect: drift.Create}
				if !s.vm.Template && !s.vm.Running && s.hasSeed {
					f.Note = "it is off: it is started again, and recreated if it is stuck"
				}
				return drift.Diff{f}
			}
			return nil
		},
		Apply: func(ctx context.Context, seen templateSeen) error {
			for _, vm := range seen.stale {
				if err := ts.Remove(ctx, vm); err != nil {
					return err
				}
			}
			t, err := ts.Template(ctx, host)
			if err != nil {
				return err
			}
			vm, err := ts.Proxmox.VM(ctx, names.Tag(ts.Spec), t.Name)
			if err != nil {
				return err
			}
			return ts.bake(ctx, t, vm)
		},
	}
}

// staleBakes are the VMs of a host in which templates of another name are half-made.
func (ts *Templates) staleBakes(host string, vms []proxmox.Summary) []proxmox.Summary {
	return slices.DeleteFunc(slices.Clone(vms), func(vm proxmox.Summary) bool { return vm.Host != host || vm.Template || !ts.Baked(vm) })
}

// Cloned adds to the spec of a node without a VM the template that it is cloned from.
func (ts *Templates) Cloned(ctx context.Context, n spec.Node, spec proxmox.VMSpec, vm *proxmox.VM) (proxmox.VMSpec, error) {
	if ts.Spec.Image.Template == "" {
		t, err := ts.Template(ctx, n.Host)
		spec.Template = t.Name
		return spec, err
	}
	if vm != nil {
		return spec, nil
	}
	source, err := ts.existing(ctx, n.Host)
	if err != nil {
		return spec, converge.Permanent(err)
	}
	spec.TemplateID = source.VMID
	return spec, nil
}

// missingNode returns the first node of a host that has no machine yet.
func missingNode(s *spec.Spec, host string, there map[string]bool) (spec.Node, bool) {
	all := s.Machines()
	i := slices.IndexFunc(all, func(n spec.Node) bool { return !n.External && n.Host == host && !there[n.Name] })
	if i < 0 {
		return spec.Node{}, false
	}
	return all[i], true
}
