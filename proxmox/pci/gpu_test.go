package pci

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/unit"
)

// Whatever a host has: a function is a card's own, a part of one, or of none; who shares a group with
// a card is a card that shares it back, a stranger that is said, or a bridge; and the order of the
// list does not matter.
func TestCardsOfAnyHost(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 500 {
		all := someFunctions(r)
		gpus := GPUs(all)
		of := map[unit.PCIAddress]int{} // cards that a GPU or a virtual function is, or is of
		byAddress := map[unit.PCIAddress]GPU{}
		for _, g := range gpus {
			of[g.Address]++
			byAddress[g.Address] = g
			for _, v := range g.Virtual {
				of[v.Address]++
			}
		}
		for _, d := range all {
			require.LessOrEqual(t, of[d.Address], 1, "%s in %+v", d.Address, all)
			if d.IsGPU() && d.Physical == nil && d.Address.Slot == 0 && d.Address.Function == 0 {
				require.Contains(t, byAddress, d.Address, "a GPU at the start of its bus is a card")
			}
		}
		for _, g := range gpus {
			for _, m := range g.GroupMembers {
				require.True(t, g.IOMMUGroup >= 0 && g.IOMMUGroup == m.IOMMUGroup)
				require.Contains(t, byAddress, m.Address, "a mate is a card")
				require.True(t, slices.ContainsFunc(byAddress[m.Address].GroupMembers, func(o Function) bool { return o.Address == g.Address }), "both are mates: %+v", all)
			}
			if g.Problem() != "" {
				continue
			}
			for _, d := range all { // all of its group goes to the VM, or may stay with the host
				if d.IOMMUGroup != g.IOMMUGroup || d.isBridge() || d.Address == g.Address || of[d.Address] > 0 {
					continue
				}
				require.True(t, slices.ContainsFunc(gpus, func(o GPU) bool {
					return o.has(d.Address) && (o.Address == g.Address || slices.ContainsFunc(g.GroupMembers, func(m Function) bool { return m.Address == o.Address }))
				}), "%s has no owner in %+v", d.Address, all)
			}
		}
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		require.ElementsMatch(t, facts(gpus), facts(GPUs(all)), "in another order: %+v", all)
	}
}

func facts(gpus []GPU) []string {
	var out []string
	for _, g := range gpus {
		for _, list := range [][]Function{g.Functions, g.Virtual, g.GroupMembers, g.Group} {
			slices.SortFunc(list, func(a, b Function) int { return a.Address.Compare(b.Address) })
		}
		out = append(out, fmt.Sprintf("%+v", g))
	}
	return out
}

func someFunctions(r *rand.Rand) []Function {
	kinds := []Function{
		{Class: "030000", Vendor: "10de", Device: "2204"}, {Class: "030200", Vendor: "10de", Device: "2204"}, {Class: "030200", Vendor: "10de", Device: "20f1"},
		{Class: "040300", Vendor: "10de"}, {Class: "060400", Vendor: "1022"}, {Class: "060000", Vendor: "1022"}, {Class: "030000", Vendor: "1a03"}, {Class: "010802", Vendor: "144d"},
	}
	var out []Function
	for bus := range uint8(3) {
		for slot := range uint8(2) {
			group := r.IntN(4) - 1 // of the device; virtual functions have their own
			for f := range 3 {
				if r.IntN(3) == 0 {
					continue
				}
				d := kinds[r.IntN(len(kinds))]
				d.Address, d.IOMMUGroup = unit.PCIAddress{Bus: bus, Slot: slot, Function: f}, group
				first := unit.PCIAddress{Bus: bus}
				if d.IsGPU() && r.IntN(3) == 0 && slices.ContainsFunc(out, func(o Function) bool { return o.Address == first && o.IsGPU() }) {
					d.Physical, d.IOMMUGroup = &first, r.IntN(4)-1
				}
				out = append(out, d)
			}
		}
	}
	return out
}

// What a card is, and what it is not, by the class and the maker of the function and what is beside it.
func TestWhichFunctionsAreCards(t *testing.T) {
	for want, d := range map[string]Function{
		"a GPU": {Class: "030000", Vendor: "10de"}, "a GPU too": {Class: "030200", Vendor: "10de"},
		"": {Class: "030000", Vendor: "1a03"}, " ": {Class: "040300", Vendor: "10de"},
	} {
		assert.Equal(t, len(want) > 1, d.IsGPU(), "%+v", d)
	}
	gpu := func(at, device string) Function {
		return Function{Address: must(t, at), Class: "030200", Vendor: "10de", Device: device, IOMMUGroup: 1}
	}
	for _, tt := range []struct {
		name      string
		all       []Function
		cards     []string
		virtual   int
		functions int
	}{
		{"two of a kind on two buses", []Function{gpu("01:00.0", "26b9"), gpu("02:00.0", "26b9")}, []string{"0000:01:00.0", "0000:02:00.0"}, 0, 0},
		{"two of a kind on buses of one number, in two domains", []Function{gpu("01:00.0", "26b9"), gpu("0001:01:01.0", "26b9")}, []string{"0000:01:00.0", "0001:01:01.0"}, 0, 0},
		{"of a kind, after the first of its bus", []Function{gpu("01:00.0", "26b9"), gpu("01:00.4", "26b9"), gpu("01:01.0", "26b9")}, []string{"0000:01:00.0"}, 2, 0},
		{"another kind after it", []Function{gpu("01:00.0", "26b9"), gpu("01:02.0", "2204")}, []string{"0000:01:00.0", "0000:01:02.0"}, 0, 0},
		{"nothing before it", []Function{gpu("01:00.4", "26b9")}, []string{"0000:01:00.4"}, 0, 0},
		{"not a GPU before it", []Function{{Address: must(t, "01:00.0"), Class: "040300", Vendor: "10de", Device: "26b9"}, gpu("01:00.4", "26b9")}, []string{"0000:01:00.4"}, 0, 1},
	} {
		var cards []string
		gpus := GPUs(tt.all)
		for _, g := range gpus {
			cards = append(cards, g.Address.String())
		}
		assert.Equal(t, tt.cards, cards, tt.name)
		assert.Equal(t, []int{tt.virtual, tt.functions}, []int{len(gpus[0].Virtual), len(gpus[0].Functions)}, tt.name)
	}
	// A card in a VM takes its own virtual functions, and not those of the next card.
	four := GPUs([]Function{gpu("01:00.0", "26b9"), gpu("01:00.4", "26b9"), gpu("02:00.0", "26b9"), gpu("02:00.4", "26b9")})
	for i, at := range []string{"01:00.4", "02:00.4"} {
		assert.Equal(t, []Function{gpu(at, "26b9")}, four[i].Virtual)
		assert.True(t, four[i].has(must(t, at)) && four[i].HasVirtualFunction(must(t, at)) && !four[1-i].has(must(t, at)))
		assert.Empty(t, four[i].Group)
		assert.Len(t, four[i].GroupMembers, 1)
	}
}

// Why a card cannot be passed through: the first thing that would have to change.
func TestWhatKeepsACardFromVMs(t *testing.T) {
	stranger := []Function{{Address: must(t, "02:00.0"), Name: "NVMe"}, {Address: must(t, "03:00.0")}}
	for want, g := range map[string]GPU{
		"": {}, "no IOMMU group: switch the IOMMU on in the firmware and on the kernel's command line": {Function: Function{IOMMUGroup: -1, Mediated: true}, Group: stranger},
		"shares IOMMU group 0 with 0000:02:00.0 NVMe, 0000:03:00.0: use another slot, or firmware with ACS":                                  {Function: Function{Mediated: true}, Group: stranger},
		"is divided by the host's vGPU driver, and Proxmox gives no whole card of that kind to a VM (mdev): remove the driver from the host": {Function: Function{Mediated: true}},
	} {
		assert.Equal(t, want, g.Problem())
	}
}
