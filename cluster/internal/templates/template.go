package templates

import (
	"context"
	_ "embed" // seal.sh
	"fmt"
	"path"
	"slices"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
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
		if n.FromTemplate() {
			hosts = append(hosts, n.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Templates describes the templates of a host: usually one, and one for each driver where its cards
// have none in common. A name contains the digest of everything that goes into a template, so a
// changed input makes another one.
func (ts *Templates) Templates(ctx context.Context, host string) ([]template, error) {
	_, all, err := ts.templatesByNode(ctx, host)
	return all, err
}

// templatesByNode describes the template of each machine of a host, and all of them in the order of the file.
func (ts *Templates) templatesByNode(ctx context.Context, host string) (map[string]template, []template, error) {
	drivers, err := ts.drivers(ctx, host, nvidia.DriverState{System: firstboot.Distro(ts.Spec).Name})
	if err != nil {
		return nil, nil, err
	}
	of, all := map[string]template{}, []template{}
	for _, n := range ts.Spec.Machines() {
		if !n.FromTemplate() || n.Host != host {
			continue
		}
		driver := drivers[n.Name]
		if driver.err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n.Name, driver.err)
		}
		t, err := describeTemplate(ts.Spec, ts.Distribution.TemplateRelease(), host, driver.Recipe)
		if err != nil {
			return nil, nil, err
		}
		if of[n.Name] = t; !slices.ContainsFunc(all, func(o template) bool { return o.Name == t.Name }) {
			all = append(all, t)
		}
	}
	return of, all, nil
}

// describeTemplate is the pure part of Templates. The name does not cover what clones do not
// get: the sources of the image and the packages, and the storage and the address of the
// template. release is what it has of Kubernetes, "" if that comes to each node.
func describeTemplate(s *spec.Spec, release, host string, driver nvidia.Recipe) (template, error) {
	t := template{host: host, driver: driver, holds: Contents{
		Image: path.Base(s.Image.URL), SHA256: s.Image.SHA256, SHA512: s.Image.SHA512, Packages: firstboot.BakedPackages(s),
	}}
	if release != "" {
		t.holds.K3s = s.K3s.Version
	}
	var repository string
	if driver.Branch != 0 {
		if s.Mirror.NVIDIA() != "" { // clones of others have NVIDIA's repository, which they cannot reach
			repository = "without NVIDIA's repository"
		}
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
	inputs := fmt.Sprintln(digest, image, s.Image.SecureBoot, release, t.holds.Driver, t.holds.Toolkit+repository)
	t.Name = names.Template(s, host, cloudinit.Digest([]byte(inputs), []byte(sealScript)))
	return t, nil
}

// templateState is a template of a host, nil if it does not exist, and whether a machine must be
// cloned from it.
type templateState struct {
	template
	vm      *proxmox.Summary
	wanted  bool
	unbased []string // disks that are not base images for clones yet
	hasSeed bool     // it is half-made and still has its seed
	// stale are half-made templates of an earlier file. They block a new bake: they run with
	// the same address.
	stale []proxmox.Summary
}

// Step bakes a host's templates, or finds them. While every machine of the host exists, no
// template is needed: another K3s or driver in the file, or one GPU node less, is no reason to
// bake. again are nodes whose machines exist and are made again.
func (ts *Templates) Step(host string, again ...string) converge.Step {
	if ts.Spec.Image.Template != "" {
		return ts.existingStep(host)
	}
	return &converge.Resource[[]templateState]{
		ID:      "template/" + host,
		Observe: func(ctx context.Context) ([]templateState, error) { return ts.observe(ctx, host, again) },
		Diff: func(all []templateState) converge.Diff {
			var d converge.Diff
			for _, s := range all {
				d = append(d, s.diff()...)
			}
			return d
		},
		Apply: func(ctx context.Context, all []templateState) error {
			for _, seen := range all {
				if seen.diff().Empty() {
					continue
				}
				for _, vm := range seen.stale {
					if err := ts.Remove(ctx, vm); err != nil {
						return err
					}
				}
				vm, err := ts.Proxmox.VMs.Get(ctx, names.Tag(ts.Spec), seen.Name)
				if err != nil {
					return err
				}
				if err := ts.bake(ctx, seen.template, vm); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// observe looks at the templates of a host.
func (ts *Templates) observe(ctx context.Context, host string, again []string) ([]templateState, error) {
	of, all, err := ts.templatesByNode(ctx, host)
	if err != nil {
		return nil, err
	}
	vms, err := ts.Proxmox.VMs.List(ctx, names.Tag(ts.Spec))
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, vm := range vms {
		there[vm.Name] = true
	}
	for _, name := range again {
		delete(there, name)
	}
	var out []templateState
	for _, t := range all {
		seen := templateState{template: t}
		for i, vm := range vms {
			if vm.Name == t.Name && vm.Host == host {
				seen.vm = &vms[i]
			}
		}
		for name, its := range of {
			seen.wanted = seen.wanted || its.Name == t.Name && !there[name]
		}
		switch {
		case !seen.wanted:
		case seen.vm == nil:
			seen.stale = ts.staleBakes(host, vms, all)
		default:
			if err := ts.observeTemplate(ctx, &seen); err != nil {
				return nil, err
			}
		}
		out = append(out, seen)
	}
	return out, nil
}

// observeTemplate sees how far a template is made.
func (ts *Templates) observeTemplate(ctx context.Context, seen *templateState) error {
	vm, err := ts.Proxmox.VMs.GetByID(ctx, seen.vm.VMID)
	if err != nil {
		return err
	}
	seen.hasSeed = !vm.Template && vm.Seed != ""
	if seen.vm.Template {
		seen.unbased, err = ts.Proxmox.Templates.UnconvertedDisks(ctx, vm)
	}
	return err
}

func (s templateState) diff() converge.Diff {
	switch {
	case s.vm == nil && s.wanted:
		d := converge.Missing(s.Name)
		for _, vm := range s.stale {
			d = append(d, converge.Field{Path: vm.Name, Have: fmt.Sprintf("VM %d, half-made", vm.VMID), Effect: converge.Remove, Note: "from an earlier file"})
		}
		return d
	case s.vm != nil && !s.vm.Template, len(s.unbased) > 0:
		f := converge.Field{Have: "half-made", Want: s.Name, Effect: converge.Create}
		if !s.vm.Template && !s.vm.Running && s.hasSeed {
			f.Note = "it is off: it is started again, and recreated if it is stuck"
		}
		return converge.Diff{f}
	}
	return nil
}

// staleBakes are the VMs of a host in which templates of other names than the wanted ones are
// half-made.
func (ts *Templates) staleBakes(host string, vms []proxmox.Summary, wanted []template) []proxmox.Summary {
	return slices.DeleteFunc(slices.Clone(vms), func(vm proxmox.Summary) bool {
		return vm.Host != host || vm.Template || !ts.Baked(vm) || slices.ContainsFunc(wanted, func(t template) bool { return t.Name == vm.Name })
	})
}

// SetTemplate adds to the spec of a machine without a VM the template that it is cloned from.
func (ts *Templates) SetTemplate(ctx context.Context, n spec.Node, to proxmox.VMSpec, vm *proxmox.VM) (proxmox.VMSpec, error) {
	if n.FromTemplate() && ts.Spec.Image.Template == "" {
		of, _, err := ts.templatesByNode(ctx, n.Host)
		to.Template = of[n.Name].Name
		return to, err
	}
	if vm != nil {
		return to, nil
	}
	source, err := ts.sourceOf(ctx, n)
	if err != nil {
		return to, converge.Permanent(err)
	}
	to.TemplateID = source.VMID
	return to, nil
}

// firstMissingNode returns the first node of a host that has no machine yet.
func firstMissingNode(s *spec.Spec, host string, there map[string]bool) (spec.Node, bool) {
	all := s.Machines()
	i := slices.IndexFunc(all, func(n spec.Node) bool { return n.FromTemplate() && n.Host == host && !there[n.Name] })
	if i < 0 {
		return spec.Node{}, false
	}
	return all[i], true
}
