package platform

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/nvidia"
)

// Kueue is the part by which groups share GPUs, and DefaultQueue the name that no queue may have.
const (
	Kueue        = addon.KueueName
	DefaultQueue = addon.DefaultQueue
)

// Offered is what the nodes offer to pods, by resource.
func Offered(s *spec.Spec) map[string]int {
	out := map[string]int{}
	if s.NVIDIA.Stack == spec.StackNone {
		return out
	}
	for _, n := range s.GPUNodes() {
		for resource, count := range offer.Of(n).Resources {
			out[resource] += count
		}
	}
	return out
}

// Amounts returns e.g. "8 nvidia.com/gpu, 7 nvidia.com/mig-1g.5gb".
func Amounts(of map[string]int) string { return offer.GPUs{Resources: of}.String() }

// Quota is what queues can always have together, by resource.
func Quota(queues ...spec.Queue) map[string]int {
	out := map[string]int{}
	for _, q := range queues {
		out[string(nvidia.Resource)] += q.GPUs
		for profile, n := range q.MIG {
			out[nvidia.MIGResource(profile)] += n
		}
	}
	return out
}

// Wants is what a server of a profile requests of the GPUs, by resource.
func Wants(p spec.HubProfile) map[string]int {
	out := map[string]int{}
	if p.GPUs > 0 {
		out[string(nvidia.Resource)] = p.GPUs
	}
	if p.MIG != "" {
		out[nvidia.MIGResource(p.MIG)] = 1
	}
	return out
}

// Namespaces are those of the platform's parts and of the checks of GPUs, which wait in no queue. The
// hub's is not among them: there only notebooks wait.
func Namespaces(s *spec.Spec) []string {
	out := []string{metav1.NamespaceSystem, nvidia.PluginName}
	pieces, err := Pieces(s, false)
	if err != nil {
		return out
	}
	for _, p := range pieces {
		if p.Release != nil && (s.Platform.Hub == nil || p.Release.Namespace != s.Platform.Hub.Namespace) {
			out = append(out, p.Release.Namespace)
		}
	}
	return out
}

// queues adds the part that lets pods wait for their turn.
func (r *recipe) queues(p *spec.Platform) {
	if len(p.Queues) == 0 {
		return
	}
	o := addon.KueueOptions{Common: r.common(Kueue), Resources: slices.Sorted(maps.Keys(Offered(r.spec)))}
	for _, q := range p.Queues {
		out := addon.Queue{Name: q.Name, Quota: Quota(q), Borrow: q.Borrow.IsOn(), Reclaim: q.Reclaim}
		maps.DeleteFunc(out.Quota, func(resource string, n int) bool { return n == 0 && !slices.Contains(o.Resources, resource) })
		for _, n := range q.Namespaces {
			if p.Hub != nil && n == p.Hub.Namespace {
				out.Labelled = append(out.Labelled, n)
			} else {
				out.Namespaces = append(out.Namespaces, n)
			}
		}
		o.Queues = append(o.Queues, out)
	}
	part, err := addon.Kueue(o)
	r.add(part, err)
}

// hubQueue is the queue in which notebooks wait; "": in none.
func hubQueue(p *spec.Platform) string {
	for _, q := range p.Queues {
		if slices.Contains(q.Namespaces, p.Hub.Namespace) {
			return q.Name
		}
	}
	return ""
}
