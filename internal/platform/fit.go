package platform

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
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
	return Hub(s).Fit()
}

// hubPools groups the nodes that are equal for the scheduler. Nodes of one pool may differ in
// taints and sharing; then the pool is several groups with one label.
func hubPools(s *spec.Spec) []jupyterhub.Pool {
	var out []jupyterhub.Pool
	index := map[string]int{}
	for _, n := range s.Nodes {
		// A program computes on one instance of a GPU, as on one share.
		shared := n.HasGPUs() && n.GPUs.Sharing.Shared() || offer.GPUsOf(n).MIG == nvidia.MIGSingle
		share := offer.Share(n)
		key := fmt.Sprint(n.PoolName(), n.Pool != "", n.Taints, shared, share)
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			p := jupyterhub.Pool{Name: n.PoolName(), Shared: shared, GPUMemory: jupyterhub.Bytes(share), Taints: addon.TaintsOf(n), Labels: hubLabels(n)}
			if slices.ContainsFunc(out, func(o jupyterhub.Pool) bool { return o.Name == p.Name }) {
				p.Name += " (" + n.Name + ")"
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
	offers := offer.GPUsOf(n)
	if s.NVIDIA.Stack == spec.StackNone {
		offers.Resources = nil // no node offers them
	}
	kept := offer.ReservedBy(s, n)
	cpu, memory := float64(n.Cores)-kept.CPU-daemonCPU, offer.Memory(n)-kept.Memory-daemonMemory
	if n.Role == spec.Server {
		cpu, memory = cpu-serverCPU, memory-serverMemory
	}
	for _, part := range Parts(s) {
		if info := part.Info(); info.On {
			cpu -= info.CPUShare * float64(n.Cores)
		}
	}
	disk := n.OSDisk.Size
	if n.External { // its size is not in the file
		disk = 0
	}
	for _, d := range n.Disks {
		if d.Mount == "/var/lib/kubelet" && d.Volume == "" {
			disk = d.Size
		}
	}
	return jupyterhub.Node{
		Disk: jupyterhub.Bytes(disk / 10 * 9), // less the file system's own and the kubelet's reserve
		Name: n.Name, CPU: max(0, cpu), Memory: jupyterhub.Bytes(max(0, memory)), Pods: max(1, kept.Pods-daemonPods),
		GPUs: offers.Resources[nvidia.Resource], Resources: offers.InstanceResources(),
	}
}

// Resources that notebooks cannot use. DaemonSets request little. A server also runs the API, etcd
// and all other pods that tolerate no taint (requests of coredns, metrics-server, hub and proxy in
// their charts, and the memory of K3s itself).
const (
	daemonCPU, daemonMemory = 0.25, 512 * spec.MiB
	serverCPU, serverMemory = 0.75, 2 * spec.GiB
	daemonPods              = 15
)

// hubLabels returns the labels by which a profile selects the node's pool, or the node itself if it
// has no pool.
func hubLabels(n spec.Node) map[string]string {
	if n.Pool == "" {
		return map[string]string{corev1.LabelHostname: n.Name}
	}
	return map[string]string{names.PoolLabel: n.Pool}
}
