package cluster

import (
	"github.com/cps-gpu/homelab/converge"
)

// Up is the whole flow, from a bare host to GPUs that can be scheduled. It can be
// read aloud: every node is a chain of its own, and each step begins as soon as
// what it needs is there.
func (c *Cluster) Up() *converge.Graph {
	s, up := c.spec, &converge.Graph{}

	// The host must be able to carry what is asked, before anything changes.
	host := up.Add(c.hostStep())

	// Machines that the file no longer names give their GPUs back first.
	removed := up.Add(c.removedStep(), host)

	// One template for each host: booted once, filled, sealed. Clones boot ready.
	templates := map[string]*converge.Ref{}
	for _, h := range c.templateHosts() {
		templates[h] = up.Add(c.templateStep(h), host)
	}

	// Every node boots by itself: seed, GPUs, VM, first boot.
	// Those of the servers are made first, since everybody waits for them, and the
	// hosts' storages make one disk at a time.
	booted := map[string]*converge.Ref{}
	var serverVMs []*converge.Ref
	for _, n := range s.Nodes {
		if n.External {
			booted[n.Name] = up.Add(c.externalStep(n))
			continue
		}
		needs := []*converge.Ref{removed, templates[n.Host], up.Add(c.seedStep(n), host)}
		if n.GPUs.Count > 0 {
			needs = append(needs, up.Add(c.gpusStep(n), removed))
		}
		if n.Role == Agent {
			needs = append(needs, serverVMs...)
		}
		vm := up.Add(c.vmStep(n), needs...)
		if n.Role == Server {
			serverVMs = append(serverVMs, vm)
		}
		booted[n.Name] = up.Add(c.guestStep(n), vm)
		if s.hasPassword(n) {
			up.Add(c.passwordStep(n), booted[n.Name])
		}
	}

	// K3s looks for a GPU's runtime only when it starts, so the driver is seen to
	// work first.
	ready := map[string]*converge.Ref{}
	for _, n := range s.Nodes {
		ready[n.Name] = booted[n.Name]
		if c.hasDriver(n) {
			ready[n.Name] = up.Add(c.driverStep(n), booted[n.Name])
		}
	}

	// The first server makes the cluster, and the address it will always have.
	servers := s.Servers()
	first := up.Add(c.k3sStep(servers[0]), ready[servers[0].Name])
	api := up.Add(c.vipStep(), first)
	joined := map[string]*converge.Ref{servers[0].Name: first}

	// Further servers join one after the other, as etcd takes members.
	previous := first
	for _, n := range servers[1:] {
		previous = up.Add(c.k3sStep(n), ready[n.Name], api, previous)
		joined[n.Name] = previous
	}

	// Agents join as soon as they have booted and the API answers.
	for _, n := range s.Agents() {
		joined[n.Name] = up.Add(c.k3sStep(n), ready[n.Name], api)
	}

	// From here on we speak to Kubernetes.
	kubeconfig := up.Add(c.kubeconfigStep(), api)
	nodes := map[string]*converge.Ref{}
	for _, n := range s.Nodes {
		nodes[n.Name] = up.Add(c.nodeStep(n), joined[n.Name], kubeconfig)
	}
	if c.hasPlugin() {
		plugin := up.Add(c.pluginStep(), kubeconfig)
		for _, n := range s.GPUNodes() {
			up.Add(c.allocatableStep(n), nodes[n.Name], plugin)
		}
	}

	// What earlier files asked for and nobody uses any more.
	rest := []*converge.Ref{kubeconfig}
	for _, n := range s.Nodes {
		rest = append(rest, booted[n.Name])
	}
	up.Add(c.leftoversStep(), rest...)
	return up
}
