package offer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// GPUs is what a node offers.
type GPUs struct {
	Cards     int                // that its driver shows
	MIG       nvidia.MIGStrategy // empty: none of its GPUs is divided
	Resources map[string]int     // what containers request, with the number of each
}

// GPUsOf returns what a node offers, as its device plugin registers it.
func GPUsOf(n spec.Node) GPUs {
	const gpu = nvidia.Resource
	count := n.GPUs.Count
	if n.GPUs.Sharing.Shared() {
		count *= max(1, n.GPUs.Sharing.Replicas)
	}
	layouts := Layouts(n)
	if len(layouts) == 0 {
		return GPUs{Cards: n.GPUs.Count, Resources: map[string]int{gpu: count}}
	}
	out := GPUs{Cards: n.GPUs.Count, MIG: nvidia.MIGMixed, Resources: map[string]int{}}
	if name, ok := sameProfile(layouts); ok {
		return GPUs{Cards: n.GPUs.Count, MIG: nvidia.MIGSingle, Resources: map[string]int{gpu: len(layouts) * layouts[0].Profiles[name]}}
	}
	for _, l := range layouts {
		if len(l.Profiles) == 0 {
			out.Resources[gpu]++
		}
		for name, n := range l.Profiles {
			out.Resources[nvidia.MIGResource(name)] += n
		}
	}
	return out
}

// All is what the nodes offer of GPUs together, by resource.
func All(s *spec.Spec) map[string]int {
	out := map[string]int{}
	for _, n := range s.Nodes {
		if !n.HasGPUs() || s.NVIDIA.Stack == spec.StackNone {
			continue
		}
		for resource, count := range GPUsOf(n).Resources {
			out[resource] += count
		}
	}
	return out
}

// Wants is what a server of a profile requests of the GPUs, by resource.
func Wants(p spec.HubProfile) map[string]int {
	out := map[string]int{}
	if p.GPUs > 0 {
		out[nvidia.Resource] = p.GPUs
	}
	if p.MIG != "" {
		out[nvidia.MIGResource(p.MIG)] = 1
	}
	return out
}

// Instances says what the nodes of a profile that divide their GPUs offer, and whether its instances
// are among that.
func Instances(s *spec.Spec, p spec.HubProfile) (offers []string, there bool) {
	for _, n := range s.Nodes {
		if p.Pool != "" && p.Pool != n.PoolName() || n.GPUs.Sharing.Strategy != spec.SharingMIG {
			continue
		}
		g := GPUsOf(n)
		there = there || g.Resources[nvidia.MIGResource(p.MIG)] > 0
		offers = append(offers, fmt.Sprintf("%s offers %s", n.Name, g))
	}
	return offers, there
}

// Quota is what queues can always have together, by resource.
func Quota(queues ...spec.Queue) map[string]int {
	out := map[string]int{}
	for _, q := range queues {
		out[nvidia.Resource] += q.GPUs
		for profile, n := range q.MIG {
			out[nvidia.MIGResource(profile)] += n
		}
	}
	return out
}

// Share is how much memory a pod gets of a node's GPUs that are shared by MPS, whose daemon limits
// each to an equal part; 0 if the file does not say which cards they are.
func Share(n spec.Node) spec.Size {
	if n.GPUs.Sharing.Strategy != spec.SharingMPS || n.GPUs.Sharing.Replicas < 1 || n.GPUs.Model == "" {
		return 0
	}
	var most spec.Size
	for _, g := range nvidia.GPUsOfModel(n.GPUs.Model) {
		if g.Memory() == 0 {
			return 0
		}
		most = max(most, g.Memory())
	}
	return most / spec.Size(n.GPUs.Sharing.Replicas)
}

// Layouts says for each GPU of a node how it is divided; none if the node divides no GPU. GPUs
// that the file does not name stay whole.
func Layouts(n spec.Node) []mig.Layout {
	s := n.GPUs.Sharing
	if s.Strategy != spec.SharingMIG {
		return nil
	}
	out := make([]mig.Layout, n.GPUs.Count)
	divided := false
	for i := range out {
		out[i].Index = i
		for _, l := range s.Layouts {
			if len(l.GPUs) == 0 || slices.Contains(l.GPUs, i) {
				out[i].Profiles = l.Profiles
			}
		}
		divided = divided || len(out[i].Profiles) > 0
	}
	if !divided {
		return nil
	}
	return out
}

// UndividedLayouts is the layout of a node that divides no GPU.
func UndividedLayouts(n spec.Node) []mig.Layout {
	out := make([]mig.Layout, n.GPUs.Count)
	for i := range out {
		out[i].Index = i
	}
	return out
}

// sameProfile reports whether all GPUs are divided into the same number of instances of one profile,
// and which. Then the instances are called nvidia.com/gpu, as whole GPUs are.
func sameProfile(layouts []mig.Layout) (profile string, ok bool) {
	for _, l := range layouts {
		if len(l.Profiles) != 1 || !maps.Equal(l.Profiles, layouts[0].Profiles) {
			return "", false
		}
	}
	for name := range layouts[0].Profiles {
		profile = name
	}
	return profile, true
}

// String returns e.g. "2 nvidia.com/gpu, 3 nvidia.com/mig-1g.5gb".
func (g GPUs) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g.Resources)) {
		out = append(out, fmt.Sprintf("%d %s", g.Resources[name], name))
	}
	return strings.Join(out, ", ")
}

// InstanceResources are the resources of instances that have names of their own.
func (g GPUs) InstanceResources() map[string]int {
	out := maps.Clone(g.Resources)
	delete(out, nvidia.Resource)
	return out
}
