package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// grouped is a row of cards, each in the IOMMU group of its number.
func grouped(groups ...int) []pci.GPU {
	out := make([]pci.GPU, len(groups))
	for i, c := range rowOf(len(groups)) {
		out[i] = c.GPU
		out[i].IOMMUGroup = groups[i]
	}
	for i := range out {
		for k := range out {
			if k != i && groups[k] == groups[i] {
				out[i].GroupMembers = append(out[i].GroupMembers, out[k].Function)
			}
		}
	}
	return out
}

// Cards of one group go together or not at all; single ones are taken first.
func TestGroupsAreNotDivided(t *testing.T) {
	free := func(cards []pci.GPU, count int) []pci.GPU {
		var seats []freeCard
		for i, g := range cards {
			seats = append(seats, freeCard{GPU: g, index: i})
		}
		seats, _ = wholeGroups(seats, func(proxmox.PCIAddress) string { return "" })
		return allot(seats, count, len(cards))
	}
	buses := func(cards []pci.GPU) (out []int) {
		for _, g := range cards {
			out = append(out, int(g.Address.Bus))
		}
		return out
	}
	for _, c := range []struct {
		groups []int
		count  int
		want   []int
	}{
		{[]int{7, 7}, 2, []int{1, 2}}, {[]int{7, 7}, 1, nil}, {[]int{7, 7, 8}, 1, []int{3}}, {[]int{7, 7, 8}, 3, []int{1, 2, 3}}, {[]int{7, 8, 7, 9}, 2, []int{2, 4}},
		{[]int{7, 7, 8, 8}, 2, []int{1, 2}}, {[]int{7, 7, 8, 8}, 3, nil}, {[]int{7, 7, 7, 8, 8}, 5, []int{1, 2, 3, 4, 5}}, {[]int{7, 7, 7, 8}, 2, nil}, {[]int{1, 2}, 3, nil},
	} {
		assert.Equal(t, c.want, buses(free(grouped(c.groups...), c.count)), "%d of %v", c.count, c.groups)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		groups := make([]int, 1+r.IntN(8))
		for i := range groups {
			groups[i] = r.IntN(5)
		}
		cards := grouped(groups...)
		for count := 1; count <= len(cards); count++ {
			got := free(cards, count)
			if got == nil {
				continue
			}
			require.Len(t, got, count)
			for _, g := range got {
				for _, m := range g.GroupMembers {
					require.True(t, slices.ContainsFunc(got, func(o pci.GPU) bool { return o.Address == m.Address }), "%d of %v", count, groups)
				}
			}
		}
		require.NotNil(t, free(cards, len(cards)), "all of them never divide a group: %v", groups)
	}
	assert.Nil(t, free(grouped(7, 7)[:1], 1), "the other one is not free")
	// A node keeps the group that it has, though single cards are free.
	seats := []freeCard{}
	for i, g := range grouped(7, 7, 8, 9) {
		seats = append(seats, freeCard{GPU: g, index: i, mine: i < 2})
	}
	assert.Equal(t, []int{1, 2}, buses(allot(seats, 2, 4)))
	_, why := wholeGroups(seats[1:2], func(proxmox.PCIAddress) string { return "belongs to VM 104" })
	assert.Equal(t, []string{"0000:02:00.0 shares IOMMU group 7 with 0000:01:00.0, which belongs to VM 104"}, why)
	assert.Equal(t, "0000:01:00, 0000:02:00 share IOMMU group 7", groupsText(seats))
	slices.Reverse(seats)
	assert.Equal(t, "0000:01:00, 0000:02:00 share IOMMU group 7", groupsText(seats), "single ones before it are not named")
}
