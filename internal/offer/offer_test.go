package offer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// What a node offers follows from its sharing; instances have a name of their own as soon as
// GPUs of the node differ.
func TestOf(t *testing.T) {
	two := func(s spec.Sharing) spec.Node { return spec.Node{GPUs: spec.GPURequest{Count: 2, Sharing: s}} }
	divided := func(layouts ...spec.MIGLayout) spec.Node {
		return two(spec.Sharing{Strategy: spec.SharingMIG, Layouts: layouts})
	}
	for _, x := range []struct {
		want string
		node spec.Node
	}{
		{"2 nvidia.com/gpu", two(spec.Sharing{Strategy: spec.SharingNone})},
		{"8 nvidia.com/gpu", two(spec.Sharing{Strategy: spec.SharingTimeSlicing, Replicas: 4})},
		{"6 nvidia.com/gpu", two(spec.Sharing{Strategy: spec.SharingMPS, Replicas: 3})},
		{"14 nvidia.com/gpu", divided(spec.MIGLayout{Profiles: map[string]int{"1g.5gb": 7}})},
		{"2 nvidia.com/mig-1g.5gb, 2 nvidia.com/mig-3g.20gb", divided(spec.MIGLayout{Profiles: map[string]int{"3g.20gb": 1, "1g.5gb": 1}})},
		{"1 nvidia.com/gpu, 2 nvidia.com/mig-3g.20gb", divided(spec.MIGLayout{GPUs: []int{1}, Profiles: map[string]int{"3g.20gb": 2}})},
		{"1 nvidia.com/gpu, 1 nvidia.com/mig-1g.5gb.me", divided(spec.MIGLayout{GPUs: []int{0}, Profiles: map[string]int{"1g.5gb+me": 1}})},
		{"7 nvidia.com/mig-1g.5gb, 2 nvidia.com/mig-3g.20gb", divided(spec.MIGLayout{GPUs: []int{0}, Profiles: map[string]int{"3g.20gb": 2}}, spec.MIGLayout{GPUs: []int{1}, Profiles: map[string]int{"1g.5gb": 7}})},
		{"2 nvidia.com/gpu", divided(spec.MIGLayout{})},
	} {
		assert.Equal(t, x.want, offer.GPUsOf(x.node).String())
	}
	assert.Equal(t, "single", string(offer.GPUsOf(divided(spec.MIGLayout{Profiles: map[string]int{"1g.5gb": 7}})).MIG))
	assert.Equal(t, "mixed", string(offer.GPUsOf(divided(spec.MIGLayout{GPUs: []int{0}, Profiles: map[string]int{"1g.5gb": 7}})).MIG))
	assert.Empty(t, offer.GPUsOf(two(spec.Sharing{})).MIG)
	assert.Nil(t, offer.Layouts(divided(spec.MIGLayout{})), "it divides none")
	assert.Equal(t, []mig.Layout{{Index: 0}, {Index: 1, Profiles: map[string]int{"3g.20gb": 2}}}, offer.Layouts(divided(spec.MIGLayout{GPUs: []int{1}, Profiles: map[string]int{"3g.20gb": 2}})))
	assert.Equal(t, []mig.Layout{{Index: 0}, {Index: 1}}, offer.UndividedLayouts(two(spec.Sharing{})))
	assert.Len(t, offer.UndividedLayouts(two(spec.Sharing{})), 2)
	assert.Equal(t, map[string]int{"nvidia.com/mig-3g.20gb": 2}, offer.GPUsOf(divided(spec.MIGLayout{GPUs: []int{1}, Profiles: map[string]int{"3g.20gb": 2}})).InstanceResources())
}

// What nodes offer together, what a profile requests, and what queues have.
func TestSums(t *testing.T) {
	node := func(pool string, s spec.Sharing) spec.Node {
		return spec.Node{Name: pool + "1", Pool: pool, GPUs: spec.GPURequest{Count: 1, Sharing: s}}
	}
	divided := spec.Sharing{Strategy: spec.SharingMIG, Layouts: []spec.MIGLayout{{Profiles: map[string]int{"3g.20gb": 1, "1g.5gb": 2}}}}
	s := &spec.Spec{Nodes: []spec.Node{node("a", spec.Sharing{}), node("b", divided), node("c", divided), {Name: "cp1"}}}
	assert.Equal(t, map[string]int{"nvidia.com/gpu": 1, "nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-1g.5gb": 4}, offer.All(s))
	assert.Empty(t, offer.All(&spec.Spec{NVIDIA: spec.NVIDIA{Stack: spec.StackNone}, Nodes: s.Nodes}))
	assert.Equal(t, map[string]int{}, offer.Wants(spec.HubProfile{}))
	assert.Equal(t, map[string]int{"nvidia.com/gpu": 2}, offer.Wants(spec.HubProfile{GPUs: 2}))
	assert.Equal(t, map[string]int{"nvidia.com/mig-1g.5gb": 1}, offer.Wants(spec.HubProfile{MIG: "1g.5gb"}))
	assert.Equal(t, map[string]int{"nvidia.com/gpu": 3, "nvidia.com/mig-1g.5gb": 5},
		offer.Quota(spec.Queue{GPUs: 1, MIG: map[string]int{"1g.5gb": 2}}, spec.Queue{GPUs: 2, MIG: map[string]int{"1g.5gb": 3}}))
	const has = " offers 2 nvidia.com/mig-1g.5gb, 1 nvidia.com/mig-3g.20gb"
	for _, x := range []struct {
		mig, pool string
		want      []string
		there     bool
	}{{"3g.20gb", "", []string{"b1" + has, "c1" + has}, true}, {"3g.20gb", "c", []string{"c1" + has}, true}, {"3g.20gb", "a", nil, false}, {"7g.40gb", "", []string{"b1" + has, "c1" + has}, false}} {
		got, there := offer.Instances(s, spec.HubProfile{MIG: x.mig, Pool: x.pool})
		assert.Equal(t, x.want, got)
		assert.Equal(t, x.there, there, "%v", x)
	}
}

// MPS limits each pod to its part of the largest card that the model may be; nothing is known without one.
func TestShare(t *testing.T) {
	for want, g := range map[spec.Size]spec.GPURequest{
		4 * spec.GiB:  {Model: "T4", Sharing: spec.Sharing{Strategy: spec.SharingMPS, Replicas: 4}},
		16 * spec.GiB: {Model: "T4", Sharing: spec.Sharing{Strategy: spec.SharingMPS, Replicas: 1}},
	} {
		assert.Equal(t, want, offer.Share(spec.Node{GPUs: g}))
		for _, change := range []func(*spec.GPURequest){
			func(g *spec.GPURequest) { g.Sharing.Strategy = spec.SharingTimeSlicing }, func(g *spec.GPURequest) { g.Sharing.Replicas = 0 },
			func(g *spec.GPURequest) { g.Model = "" }, func(g *spec.GPURequest) { g.Model = "RTX" },
		} {
			other := g
			change(&other)
			assert.Zero(t, offer.Share(spec.Node{GPUs: other}))
		}
	}
}
