package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/templates"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/leasefile"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/proxmox"
)

// source is where the machines come from that homelab makes. Above it, steps reach machines over SSH, and do not know
// which it is.
type source interface {
	// check is done before anything changes: can it carry what the file asks for?
	check() converge.Step
	// prepare adds what all machines wait for besides.
	prepare(up *converge.Graph, check *converge.Ref) []*converge.Ref
	// removal adds the step that removes machines that are no longer in the file; nil: there are none.
	removal(up *converge.Graph, begin ...*converge.Ref) *converge.Ref
	// machine adds the steps that bring a machine from nothing to where programs can be installed.
	machine(g *converge.Graph, n spec.Node, on ground) (vm, booted *converge.Ref)
	// list returns the VMs that belong to the cluster.
	list(ctx context.Context) ([]vmSeen, error)
	// destroy adds the steps that remove all machines except those that stay, and what was made for them.
	destroy(ctx context.Context, down *converge.Graph, stay map[string]bool) ([]*converge.Ref, error)
	// replace returns the steps that destroy the machine of a node, make it again, and let it join.
	replace(ctx context.Context, n spec.Node, force bool) (*converge.Graph, error)
	// restart switches a machine off and on.
	restart(ctx context.Context, n spec.Node) error
	// driver chooses the driver for the cards that a machine gets.
	driver(ctx context.Context, n spec.Node, seen nvidia.DriverState) (nvidia.Recipe, error)
	// lease is that of this cluster.
	lease() converge.LeaseStore
}

// vmSeen is a VM as its source lists it.
type vmSeen struct {
	name, host string
	vmid       int // 0: it has no such number
	running    bool
}

// source chooses where the machines of the file come from. This is the one place that knows which there are.
func (c *machines) source() source {
	switch {
	case c.Proxmox != nil:
		return onProxmox{c}
	case c.Harvester != nil:
		return newOnHarvester(c)
	}
	return noSource{c}
}

// noSource is that of a file whose machines all exist.
type noSource struct{ *machines }

func (c noSource) check() converge.Step                                  { return c.filesCheck() }
func (noSource) prepare(*converge.Graph, *converge.Ref) []*converge.Ref  { return nil }
func (noSource) removal(*converge.Graph, ...*converge.Ref) *converge.Ref { return nil }
func (noSource) machine(*converge.Graph, spec.Node, ground) (vm, booted *converge.Ref) {
	return nil, nil
}
func (noSource) list(context.Context) ([]vmSeen, error) { return nil, nil }

func (noSource) destroy(context.Context, *converge.Graph, map[string]bool) ([]*converge.Ref, error) {
	return nil, nil
}

func (noSource) replace(context.Context, spec.Node, bool) (*converge.Graph, error) { return nil, nil }

func (noSource) restart(context.Context, spec.Node) error { return nil }

func (noSource) driver(context.Context, spec.Node, nvidia.DriverState) (nvidia.Recipe, error) {
	return nvidia.Recipe{}, nil
}

func (c noSource) lease() converge.LeaseStore {
	first := c.spec.Servers()[0].Name
	return &leasefile.File{Root: c.nodes.Root(first), Machine: first, Path: leasefile.Folder + "/homelab-" + c.spec.Name + ".lease"}
}

// onProxmox makes VMs of Proxmox VE.
type onProxmox struct{ *machines }

func (c onProxmox) check() converge.Step { return c.hostStep() }

func (c onProxmox) prepare(up *converge.Graph, check *converge.Ref) []*converge.Ref {
	return []*converge.Ref{up.Add(c.nodes.LoginStep(), check)} // existing machines must let us log in
}

func (c onProxmox) removal(up *converge.Graph, begin ...*converge.Ref) *converge.Ref {
	return up.Add(c.removedStep(), begin...)
}

// machine makes a VM of Proxmox VE: seed, GPUs, VM, first boot.
func (c onProxmox) machine(g *converge.Graph, n spec.Node, on ground) (vm, booted *converge.Ref) {
	needs := []*converge.Ref{on.free}
	if !n.Adopt && n.Boot == nil {
		needs = append(needs, on.template)
	}
	if !n.Adopt { // an adopted VM has finished its first boot
		needs = append(needs, g.Add(c.seeds.Step(n, on.again), on.begin...))
	}
	if n.HasGPUs() {
		needs = append(needs, g.Add(c.gpusStep(n), on.free))
	}
	if len(n.Devices) > 0 {
		needs = append(needs, g.Add(c.devicesStep(n), on.free))
	}
	vm = g.Add(c.vmStep(n), append(needs, on.first...)...)
	up := vm
	if n.SecurityGroups != nil {
		up = g.Add(c.firewallStep(n), vm)
	}
	switch {
	case n.Boot == nil:
		return vm, g.Add(c.nodes.GuestStep(n), up)
	case n.Boot.Agent.IsOn():
		return vm, g.Add(c.agentStep(n), up)
	}
	return vm, up
}

func (c onProxmox) list(ctx context.Context) ([]vmSeen, error) {
	all, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	return seenVMs(all), err
}

// seenVMs are VMs of Proxmox VE; a template is not a machine.
func seenVMs(all []proxmox.Summary) []vmSeen {
	var out []vmSeen
	for _, vm := range all {
		if !vm.Template {
			out = append(out, vmSeen{vm.Name, vm.Host, vm.VMID, vm.Running})
		}
	}
	return out
}

func (c onProxmox) destroy(ctx context.Context, down *converge.Graph, stay map[string]bool) ([]*converge.Ref, error) {
	// Machines that an interrupted run left incomplete belong to the cluster too.
	for _, host := range hostprep.Hosts(c.spec) {
		if _, err := c.Proxmox.WaitForEarlierTasks(ctx, host); err != nil {
			return nil, err
		}
	}
	vms, err := c.Proxmox.VMs.List(ctx, names.Tag(c.spec))
	if err != nil {
		return nil, err
	}
	var gone []*converge.Ref
	for _, vm := range vms {
		if !c.templates.IsTemplate(vm) && !stay[vm.Name] {
			gone = append(gone, down.Add(c.destroyStep(vm, countNamed(vms, vm) > 1)))
		}
	}
	return append(gone, down.Add(&converge.Resource[[]templates.Leftover]{
		ID: "leftovers",
		Observe: func(ctx context.Context) ([]templates.Leftover, error) {
			return c.unneededOnHosts(ctx, func(context.Context, string) (neededFiles, error) {
				return neededFiles{nothing: len(stay) == 0, stay: stay}, nil
			})
		},
		Diff:  diffRests,
		Costs: costsOfRests,
		Apply: c.templates.RemoveLeftovers,
	}, gone...)), nil
}

func (c onProxmox) driver(ctx context.Context, n spec.Node, seen nvidia.DriverState) (nvidia.Recipe, error) {
	want, err := c.templates.Driver(ctx, n, seen)
	if err == nil {
		err = c.mayBuild(ctx, n, want)
	}
	return want, err
}

func (c onProxmox) lease() converge.LeaseStore {
	var hosts []string
	for _, h := range c.spec.Proxmox.Hosts {
		hosts = append(hosts, h.Name)
	}
	return c.Proxmox.Lease(c.spec.Name, hosts...)
}
