package platform

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/jupyterhub"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
)

// homesStay reports whether a home is a volume of one node.
func homesStay(s *spec.Spec) bool {
	p := s.Platform
	class := cmp.Or(p.Hub.Home.Class, p.Storage.Default, spec.LocalPath)
	return class == spec.LocalPath || p.Storage.Scratch != nil && class == p.Storage.Scratch.Class
}

// Fit says where each of the hub's profiles fits, and how many servers fit at once.
func Fit(s *spec.Spec) jupyterhub.Report {
	h := s.Platform.Hub
	if h == nil {
		return jupyterhub.Report{}
	}
	all, _ := hubOf(s, siteOf(s, false)) // what cannot be read has no influence on it
	all.Pools = fitPools(s)
	return all.Fit()
}

// fitPools groups the nodes that are equal for the scheduler. Nodes of one pool may differ in
// taints and sharing; then the pool is several groups with one label.
func fitPools(s *spec.Spec) []jupyterhub.Pool {
	var out []jupyterhub.Pool
	index := map[string]int{}
	for _, n := range s.Nodes {
		// A program computes on one instance of a GPU, as on one share.
		shared := n.GPUs.Count > 0 && n.GPUs.Sharing.Shared() || offer.Of(n).MIG == nvidia.MIGSingle
		share := offer.Share(n)
		key := fmt.Sprint(n.Pool, n.Taints, shared, share)
		if n.Pool == "" {
			key = "node " + n.Name
		}
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			p := jupyterhub.Pool{Name: n.Pool, Shared: shared, GPUMemory: jupyterhub.Bytes(share), Taints: addon.TaintsOf(n), Labels: hubLabels(n)}
			switch {
			case n.Pool == "":
				p.Name = n.Name
			case slices.ContainsFunc(out, func(o jupyterhub.Pool) bool { return o.Name == n.Pool }):
				p.Name = n.Pool + " (" + n.Name + ")"
			}
			out = append(out, p)
		}
		out[i].Nodes = append(out[i].Nodes, fitNode(s, n))
	}
	return out
}

// fitNode is what notebooks can have of a node: all that it has, less what its kernel needs, what the
// kubelet keeps, and what pods that always run there request.
func fitNode(s *spec.Spec, n spec.Node) jupyterhub.Node {
	offers := offer.Of(n)
	if s.NVIDIA.Stack == spec.StackNone {
		offers.Resources = nil // no node offers them
	}
	kept := offer.KeptBy(s, n)
	less := jupyterhub.Overhead{CPU: daemonCPU + kept.CPU, Memory: jupyterhub.Bytes(daemonMemory + kept.Memory), Pods: daemonPods, MaxPods: kept.Pods}
	if n.Role == spec.Server {
		less.CPU += serverCPU
		less.Memory += jupyterhub.Bytes(serverMemory)
	}
	for _, part := range Parts(s) {
		if info := part.Info(); info.On {
			less.CPU += info.CPUShare * float64(n.Cores)
		}
	}
	out := jupyterhub.Allocatable(jupyterhub.Capacity{
		Name: n.Name, CPU: float64(n.Cores), Memory: jupyterhub.Bytes(n.Memory), GPUs: offers.Resources[nvidia.Resource],
	}, less)
	out.Resources = offers.Divided()
	return out
}

// Resources that notebooks cannot use. DaemonSets request little. A server also runs the API, etcd
// and all other pods that tolerate no taint (requests of coredns, metrics-server, hub and proxy in
// their charts, and the memory of K3s itself).
const (
	daemonCPU, daemonMemory = 0.25, 512 * spec.MiB
	serverCPU, serverMemory = 0.75, 2 * spec.GiB
	daemonPods              = 15
)
