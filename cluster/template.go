package cluster

import (
	"context"
	_ "embed" // seal.sh
	"fmt"
	"path"
	"slices"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/cluster/internal/firstboot"
	"github.com/cps-gpu/homelab/cluster/placement"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/distro"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/spec"
)

//go:embed seal.sh
var sealScript string

// template is what a host's template should be.
type template struct {
	host, name string
	holds      contents
	driver     nvidia.Recipe // zero: none is baked
}

// templateHosts are the hosts that need a template, sorted.
func (c *Cluster) templateHosts() []string {
	var hosts []string
	for _, n := range c.spec.Machines() {
		if !n.External {
			hosts = append(hosts, n.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// template describes a host's template. Its name carries the digest of all that
// goes into it, so a changed input is another template.
func (c *Cluster) template(ctx context.Context, host string) (template, error) {
	driver, err := c.driverFor(ctx, host, nvidia.DriverState{System: firstboot.Distro(c.spec).ID})
	if err != nil {
		return template{}, err
	}
	return describeTemplate(c.spec, host, driver)
}

// describeTemplate is the pure part of template. The name does not cover what
// the clones do not get: the sources of image and packages, the storage of the
// template, and its address.
func describeTemplate(s *spec.Spec, host string, driver nvidia.Recipe) (template, error) {
	t := template{host: host, driver: driver, holds: contents{
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
	if image == "" { // the lab's, by its address
		image = s.Image.URL
	}
	release := ""
	if t.holds.K3s != "" { // whose sums come with the release
		r := k3s.Release{Version: t.holds.K3s}
		release = r.URL(r.Images())
	}
	inputs := fmt.Sprintln(digest, image, s.Image.SecureBoot, release, t.holds.Driver, t.holds.Toolkit)
	t.name = names.Template(s, host, cloudinit.Digest([]byte(inputs), []byte(sealScript)))
	return t, nil
}

// driverFor chooses the driver for the cards that a host's nodes may get, and is
// the zero Driver where they get none or it is none of our business. A series that
// is installed stays, unless the file names another.
func (c *Cluster) driverFor(ctx context.Context, host string, seen nvidia.DriverState) (nvidia.Recipe, error) {
	s := c.spec
	if !installsDriver(s) {
		return nvidia.Recipe{}, nil
	}
	var ids []nvidia.PCIID
	for _, n := range s.GPUNodes() {
		if n.External || n.Host != host {
			continue
		}
		gpus, err := c.Proxmox.GPUs(ctx, host)
		if err != nil {
			return nvidia.Recipe{}, err
		}
		for _, g := range gpus {
			if placement.Candidate(n, g) {
				id, err := nvidia.ParsePCIID(g.ID())
				if err != nil {
					return nvidia.Recipe{}, err
				}
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nvidia.Recipe{}, nil
	}
	policy := driverPolicy(s, installed(seen))
	if d, known := distro.ByID(seen.System); known { // which a node that was taken over may have another of
		policy.System = d.Name
	}
	recipe := nvidia.Recipe{System: policy.System, Build: policy.Build}
	driver, _, err := nvidia.SelectDriverBranch(ids, policy)
	if recipe.Driver = driver; err == nil {
		return recipe, nil
	}
	// No driver is for all of them. Those that somebody else has, or that nobody gets,
	// need none.
	ids, failed := c.allotted(ctx, host)
	if failed != nil || len(ids) == 0 {
		return nvidia.Recipe{}, converge.Permanent(err)
	}
	recipe.Driver, _, err = nvidia.SelectDriverBranch(ids, policy)
	return recipe, converge.Permanent(err)
}

// allotted are the ids of the cards that a host's nodes get.
func (c *Cluster) allotted(ctx context.Context, host string) ([]nvidia.PCIID, error) {
	deal, err := c.allot(ctx, host)
	if err != nil {
		return nil, err
	}
	var ids []nvidia.PCIID
	for _, share := range deal.Shares {
		for _, g := range share.Cards {
			id, err := nvidia.ParsePCIID(g.ID())
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// driverPolicy is what the file says of the driver.
func driverPolicy(s *spec.Spec, installed string) nvidia.Policy {
	p := nvidia.Policy{Installed: installed, System: s.Image.Distribution, Build: s.NVIDIA.DriverMode == spec.DriverDKMS}
	if s.NVIDIA.Branch != "auto" {
		p.Branch = s.NVIDIA.Branch
	}
	if s.NVIDIA.Flavour != "auto" {
		p.Flavour = nvidia.Flavour(s.NVIDIA.Flavour)
	}
	return p
}

// installsDriver reports whether we put the driver onto nodes.
func installsDriver(s *spec.Spec) bool {
	return s.NVIDIA.DriverMode == spec.DriverPrebuilt || s.NVIDIA.DriverMode == spec.DriverDKMS
}

// templateSeen is a host's template, nil when it is not there, and whether a machine
// is to be cloned from it.
type templateSeen struct {
	vm      *proxmox.Summary
	wanted  bool
	unbased []string // disks that are not yet what clones hang on
	hasSeed bool     // it is half-made, and has its seed still
	// stale are half-made ones of an earlier file, in the way of one to be made: they
	// run, with the same address.
	stale []proxmox.Summary
}

// templateStep bakes a host's template, or finds it. While every machine of the host
// is there nobody asks for one: another K3s or driver in the file, or one GPU node
// less, is no reason to bake.
func (c *Cluster) templateStep(host string) converge.Step {
	if c.spec.Image.Template != "" {
		return c.existingStep(host)
	}
	name := ""
	return &converge.Resource[templateSeen]{
		ID: "template/" + host,
		Observe: func(ctx context.Context) (templateSeen, error) {
			t, err := c.template(ctx, host)
			if err != nil {
				return templateSeen{}, err
			}
			name = t.name
			vms, err := c.Proxmox.VMs(ctx, names.Tag(c.spec))
			seen, there := templateSeen{}, map[string]bool{}
			for i, vm := range vms {
				there[vm.Name] = true
				if vm.Name == t.name && vm.Host == host {
					seen.vm = &vms[i]
				}
			}
			_, seen.wanted = missingNode(c.spec, host, there)
			if err == nil && seen.wanted && seen.vm == nil {
				seen.stale = c.staleBakes(host, vms)
			}
			if err == nil && seen.wanted && seen.vm != nil {
				var vm *proxmox.VM
				if vm, err = c.Proxmox.ByID(ctx, seen.vm.VMID); err == nil {
					seen.hasSeed = !vm.Template && vm.Seed != ""
					if seen.vm.Template {
						seen.unbased = vm.Unbased()
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
				if err := c.remove(ctx, vm); err != nil {
					return err
				}
			}
			t, err := c.template(ctx, host)
			if err != nil {
				return err
			}
			vm, err := c.Proxmox.VM(ctx, names.Tag(c.spec), t.name)
			if err != nil {
				return err
			}
			return c.bake(ctx, t, vm)
		},
	}
}

// staleBakes are the VMs of a host in which templates of another name are being made.
func (c *Cluster) staleBakes(host string, vms []proxmox.Summary) []proxmox.Summary {
	return slices.DeleteFunc(slices.Clone(vms), func(vm proxmox.Summary) bool { return vm.Host != host || vm.Template || !c.baked(vm) })
}

// cloned adds to a node's spec which template it is cloned from, if it is not there.
func (c *Cluster) cloned(ctx context.Context, n spec.Node, spec proxmox.VMSpec, vm *proxmox.VM) (proxmox.VMSpec, error) {
	if c.spec.Image.Template == "" {
		t, err := c.template(ctx, n.Host)
		spec.Template = t.name
		return spec, err
	}
	if vm != nil {
		return spec, nil
	}
	source, err := c.existing(ctx, n.Host)
	if err != nil {
		return spec, converge.Permanent(err)
	}
	spec.TemplateID = source.VMID
	return spec, nil
}

// missing returns the first node of a host that has no machine yet.
func missingNode(s *spec.Spec, host string, there map[string]bool) (spec.Node, bool) {
	all := s.Machines()
	i := slices.IndexFunc(all, func(n spec.Node) bool { return !n.External && n.Host == host && !there[n.Name] })
	if i < 0 {
		return spec.Node{}, false
	}
	return all[i], true
}
