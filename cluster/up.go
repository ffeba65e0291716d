package cluster

import (
	"maps"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/spec"
)

// Up is the whole flow, from a bare host to GPUs that can be scheduled. It can be
// read aloud: every node is a chain of its own, and each step begins as soon as
// what it needs is there.
func (c *Cluster) Up() *converge.Graph {
	up := run.Graph(c.spec)
	up.Before = c.members.CanKeep

	// The host must be able to carry what is asked, before anything changes.
	// So must the charts be there, and take the values that we have for them.
	begin := []*converge.Ref{up.Add(c.beginStep()), c.parts.AddCheck(up)}
	if c.Proxmox != nil { // and we must be let in where machines are there already
		begin = append(begin, up.Add(c.nodes.LoginStep(), begin[0]))
	}

	// Machines that the file no longer names give their GPUs back first.
	var removed *converge.Ref
	if c.Proxmox != nil {
		removed = up.Add(c.removedStep(), begin...)
	}

	// One template for each host: booted once, filled, sealed. Clones boot ready.
	templates := parts.Refs{}
	for _, h := range c.templates.Hosts() {
		templates[h] = up.Add(c.templates.Step(h), begin...)
	}

	booted := c.boot(up, begin, removed, templates)
	joined, api := c.join(up, c.drivers(up, booted))

	// From here on we speak to Kubernetes.
	kubeconfig := up.Add(c.members.KubeconfigStep(), api)
	ground := c.schedule(up, joined, c.network(up, kubeconfig))
	ground.Files = c.fileServer(up, booted)

	// The parts that people use: storage, certificates, monitoring, the hub.
	parts := c.parts.Add(up, ground)

	// Leftovers of earlier files.
	rest := append([]*converge.Ref{kubeconfig}, parts...)
	for _, n := range c.spec.Machines() {
		rest = append(rest, booted[n.Name])
	}
	up.Add(c.leftoversStep(), rest...)
	return up
}

// boot makes every machine by itself: seed, GPUs, VM, first boot. The servers' machines
// are made first, since everybody waits for them, and the hosts' storages make one
// disk at a time.
func (c *Cluster) boot(up *converge.Graph, begin []*converge.Ref, removed *converge.Ref, templates parts.Refs) parts.Refs {
	booted := parts.Refs{}
	var servers []*converge.Ref
	for _, n := range c.spec.Machines() {
		if n.External {
			booted[n.Name] = up.Add(c.nodes.ExternalStep(n), begin...)
			continue
		}
		needs := []*converge.Ref{removed}
		if !n.Adopt { // it has booted long since
			needs = append(needs, templates[n.Host], up.Add(c.seeds.Step(n, false), begin...))
		}
		if n.GPUs.Count > 0 {
			needs = append(needs, up.Add(c.gpusStep(n), removed))
		}
		if n.Role != spec.Server {
			needs = append(needs, servers...)
		}
		vm := up.Add(c.vmStep(n), needs...)
		if n.Role == spec.Server {
			servers = append(servers, vm)
		}
		booted[n.Name] = up.Add(c.nodes.GuestStep(n), vm)
		if nodes.HasPassword(c.spec, n) {
			up.Add(c.nodes.PasswordStep(n), booted[n.Name])
		}
		if len(nodes.MountedDisks(n)) > 0 { // before pods can ask for what is on them
			booted[n.Name] = up.Add(c.nodes.DisksStep(n), booted[n.Name])
		}
	}
	return booted
}

// fileServer has the NFS server that we make export its disk. Nobody but what is on NFS
// waits for it.
func (c *Cluster) fileServer(up *converge.Graph, booted parts.Refs) (exported []*converge.Ref) {
	for _, n := range c.spec.Machines() {
		if n.Role == spec.FileServer {
			exported = append(exported, up.Add(c.nodes.ExportStep(n), booted[n.Name]))
		}
	}
	return exported
}

// drivers sees that those of nodes with GPUs work before K3s starts there: it looks
// for their runtime only then.
func (c *Cluster) drivers(up *converge.Graph, booted parts.Refs) parts.Refs {
	ready := maps.Clone(booted)
	for _, n := range c.spec.Nodes {
		if c.members.HasDriver(n) {
			ready[n.Name] = up.Add(c.driverStep(n), booted[n.Name])
		}
	}
	return ready
}

// join makes the cluster and lets every node into it; api is the address that the
// cluster will always have.
func (c *Cluster) join(up *converge.Graph, ready parts.Refs) (joined parts.Refs, api *converge.Ref) {
	servers := c.spec.Servers()
	first := up.Add(c.members.K3sStep(servers[0]), ready[servers[0].Name])
	api = up.Add(c.members.VIPStep(), first)
	joined = parts.Refs{servers[0].Name: first}

	// Further servers join one after the other, as etcd takes members.
	previous := first
	for _, n := range servers[1:] {
		previous = up.Add(c.members.K3sStep(n), ready[n.Name], api, previous)
		joined[n.Name] = previous
	}

	// Agents join as soon as they are ready and the API answers.
	for _, n := range c.spec.Agents() {
		joined[n.Name] = up.Add(c.members.K3sStep(n), ready[n.Name], api)
	}
	return joined, api
}

// network installs the pods' network where it is not K3s' own: no node is ready
// before it runs.
func (c *Cluster) network(up *converge.Graph, kubeconfig *converge.Ref) *converge.Ref {
	for _, p := range c.parts.Pieces() {
		if p.Network {
			kubeconfig = c.parts.AddPart(up, p, parts.Ground{API: kubeconfig}, nil)
		}
	}
	return kubeconfig
}

// schedule gives the nodes their labels and taints, and their GPUs to Kubernetes.
func (c *Cluster) schedule(up *converge.Graph, joined parts.Refs, api *converge.Ref) parts.Ground {
	on, nodes := parts.Ground{API: api}, parts.Refs{}
	for _, n := range c.spec.Nodes {
		nodes[n.Name] = up.Add(c.members.NodeStep(n), joined[n.Name], api)
		on.Nodes = append(on.Nodes, nodes[n.Name])
	}
	if !c.members.HasPlugin() {
		return on
	}
	plugin := up.Add(c.members.PluginStep(), api)
	for _, n := range c.spec.GPUNodes() {
		on.Gpus = append(on.Gpus, up.Add(c.members.AllocatableStep(n), nodes[n.Name], plugin))
	}
	return on
}
