package offer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/offer"
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
	assert.Len(t, offer.UndividedLayouts(two(spec.Sharing{})), 2)
	assert.Equal(t, map[string]int{"nvidia.com/mig-3g.20gb": 2}, offer.GPUsOf(divided(spec.MIGLayout{GPUs: []int{1}, Profiles: map[string]int{"3g.20gb": 2}})).InstanceResources())
}
