package cluster

import (
	"context"
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/offer"
)

// Up is the whole flow, from a bare host to GPUs that can be scheduled. Read it from top to
// bottom: every node is a chain of its own, and each step starts as soon as its dependencies
// are done.
func (c *Cluster) Up() *converge.Graph {
	f := c.site.flow()
	up := f.members.Graph()
	up.BeforeActing = f.mayChange()

	// Before anything changes, the hosts must be able to carry what the file asks for. All charts
	// must be available and accept our values.
	from := f.source()
	begin := []*converge.Ref{up.Add(from.check()), f.parts.AddCheck(up)}
	begin = append(begin, from.prepare(up, begin[0])...)

	// Machines that are no longer in the file release their GPUs first.
	removed := from.removal(up, begin...)

	// Each host has one template: booted once, filled, sealed. Clones boot ready to use.
	templates := parts.Refs{}
	for _, h := range f.templates.Hosts() {
		templates[h] = up.Add(f.templates.Step(h), begin...)
	}

	booted := f.boot(up, begin, removed, templates)
	ready := maps.Clone(booted)
	for _, n := range f.spec.Nodes {
		ready[n.Name] = f.driver(up, n, booted[n.Name])
	}
	joined, api := f.join(up, ready)

	// From here on the steps use the Kubernetes API.
	kubeconfig := up.Add(f.members.KubeconfigStep(), api)
	ground := f.schedule(up, joined, f.network(up, kubeconfig))
	ground.Files = f.fileServer(up, booted)

	// The parts that users work with: storage, certificates, monitoring, the hub.
	last := f.parts.Add(up, ground)

	// Leftovers of earlier files.
	rest := append([]*converge.Ref{kubeconfig}, last...)
	for _, n := range f.spec.Machines() {
		rest = append(rest, booted[n.Name])
	}
	up.Add(f.leftoversStep(), rest...)
	return up
}

// boot makes every machine independently: seed, GPUs, VM, first boot. It makes the servers'
// machines first, since all others wait for them, and the hosts' storages create one disk at a
// time.
func (c *flow) boot(up *converge.Graph, begin []*converge.Ref, removed *converge.Ref, templates parts.Refs) parts.Refs {
	booted := parts.Refs{}
	var servers []*converge.Ref
	for _, n := range c.spec.Machines() {
		needs := ground{begin: begin, free: removed, template: templates[n.Host]}
		if n.Role != spec.Server {
			needs.first = servers
		}
		var vm *converge.Ref
		if vm, booted[n.Name] = c.machine(up, n, needs); vm != nil && n.Role == spec.Server {
			servers = append(servers, vm)
		}
	}
	return booted
}

// ground is what the steps of a machine wait for.
type ground struct {
	begin    []*converge.Ref // the checks before anything changes
	free     *converge.Ref   // other machines have released what it gets
	template *converge.Ref
	first    []*converge.Ref // what its VM waits for besides
	again    bool            // the machine is about to be made again, whatever exists now
}

// machine adds the steps that bring a machine to where programs can be installed. vm is nil for an external machine,
// which exists.
func (c *machines) machine(g *converge.Graph, n spec.Node, on ground) (vm, booted *converge.Ref) {
	if n.External {
		return nil, g.Add(c.nodes.ExternalStep(n), on.begin...)
	}
	vm, booted = c.source().machine(g, n, on)
	if n.Boot != nil {
		return vm, booted
	}
	if nodes.HasPassword(c.spec, n) {
		g.Add(c.nodes.PasswordStep(n), booted)
	}
	if len(nodes.MountedDisks(n)) > 0 { // before pods can use the data on them
		booted = g.Add(c.nodes.DisksStep(n), booted)
	}
	return vm, booted
}

// fileServer makes the NFS server of this cluster export its disk. Only parts that use NFS wait
// for it.
func (c *flow) fileServer(up *converge.Graph, booted parts.Refs) (exported []*converge.Ref) {
	for _, n := range c.spec.Machines() {
		if n.Role == spec.FileServer {
			exported = append(exported, up.Add(c.nodes.ExportStep(n), booted[n.Name]))
		}
	}
	return exported
}

// driver adds the steps after which a node's driver works, and its GPUs are divided if the file wants
// that: K3s looks for their runtime only at its start.
func (c *machines) driver(g *converge.Graph, n spec.Node, booted *converge.Ref) *converge.Ref {
	if c.members.HasDriver(n) {
		booted = g.Add(c.driverStep(n), booted)
	}
	if len(offer.Layouts(n)) > 0 && c.members.HasPlugin() {
		booted = g.Add(c.migStep(n), booted)
	}
	return booted
}

// join creates the cluster and lets every node join it. api is the permanent address of the
// cluster.
func (c *flow) join(up *converge.Graph, ready parts.Refs) (joined parts.Refs, api *converge.Ref) {
	servers := c.spec.Servers()
	first := up.Add(c.firstServer(servers[0]), ready[servers[0].Name])
	api = up.Add(c.members.VIPStep(), first)
	joined = parts.Refs{servers[0].Name: first}

	// Other servers join one after the other, since etcd adds one member at a time.
	previous := first
	for _, n := range servers[1:] {
		previous = up.Add(c.members.MemberStep(n), ready[n.Name], api, previous)
		joined[n.Name] = previous
	}

	// Agents join as soon as they are ready and the API answers. From any server they learn at
	// their start, and only then, whether images come from other nodes.
	served := []*converge.Ref{api}
	if c.spec.K3s.EmbeddedRegistry {
		served = append(served, previous)
	}
	for _, n := range c.spec.Agents() {
		joined[n.Name] = up.Add(c.members.MemberStep(n), append([]*converge.Ref{ready[n.Name]}, served...)...)
	}
	return joined, api
}

// network installs the pods' network if it is not K3s' own: no node is ready before it runs.
func (c *flow) network(up *converge.Graph, kubeconfig *converge.Ref) *converge.Ref {
	for _, p := range c.parts.Pieces() {
		if p.Network {
			kubeconfig = c.parts.AddPart(up, p, parts.Ground{API: kubeconfig}, nil)
		}
	}
	return kubeconfig
}

// schedule sets the nodes' labels and taints, and makes their GPUs available to Kubernetes.
func (c *flow) schedule(up *converge.Graph, joined parts.Refs, api *converge.Ref) parts.Ground {
	on, marked := parts.Ground{API: api}, parts.Refs{}
	for _, n := range c.spec.Nodes {
		marked[n.Name] = up.Add(c.members.NodeStep(n), joined[n.Name], api)
		on.Nodes = append(on.Nodes, marked[n.Name])
	}
	if !c.members.HasPlugin() {
		return on
	}
	plugin := c.offer(up, api)
	for _, n := range c.spec.GPUNodes() {
		on.Gpus = append(on.Gpus, up.Add(c.members.AllocatableStep(n), c.runtimeOf(up, n, marked[n.Name], plugin)...))
	}
	return on
}

// mayChange returns what must hold before a run changes anything: the kubeconfig can be
// written, the files of k3s.airgap are whole, and Kubernetes supports the step to the file's
// version from that of every node; and machines that exist are fit for it. again are nodes whose machines the run makes again.
func (c *machines) mayChange(again ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.members.CheckKubeconfigWritable(ctx); err != nil {
			return err
		}
		d := c.distribution()
		if err := d.CheckSums(ctx); err != nil {
			return err
		}
		if o, ok := d.(distribution.Opener); ok {
			if err := o.Open(ctx); err != nil {
				return err
			}
		}
		if err := members.InspectExternal(ctx, c.members.Kubernetes, again...); err != nil {
			return err
		}
		if up, err := c.serverUp(ctx); err != nil || !up {
			return err
		}
		return c.members.CheckVersions(ctx, again...)
	}
}

// serverUp reports whether the machine of some server runs, as far as the hosts show it: others
// need not be asked for their version.
func (c *machines) serverUp(ctx context.Context) (bool, error) {
	all, err := c.source().list(ctx)
	return slices.ContainsFunc(c.spec.Servers(), func(n spec.Node) bool {
		return n.External || slices.ContainsFunc(all, func(vm vmSeen) bool { return vm.name == n.Name && vm.running })
	}), err
}

// UpgradeSnapshot returns the snapshot of etcd that [Cluster.Up] saved before it upgraded the
// first server, and where it is, e.g. on cp1; empty if it saved none.
func (c *Cluster) UpgradeSnapshot() (name, where string) { return c.site.members.SavedSnapshot() }
