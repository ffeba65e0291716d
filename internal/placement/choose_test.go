package placement

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// rowOf is a row of cards, by their places on the bus.
func rowOf(n int, models ...string) []pci.Card {
	out := make([]pci.Card, n)
	for i := range out {
		model := "GA100 [A100]"
		if i < len(models) {
			model = models[i]
		}
		out[i] = pci.Card{GPU: pci.GPU{Function: pci.Function{Address: proxmox.PCIAddress{Bus: uint8(i + 1)}, Vendor: "10de", Device: map[string]string{"GA100 [A100]": "20f1"}[model], Name: model, IOMMUGroup: i}, Model: model}, Host: "pve1"}
	}
	return out
}

func seatsOf(free string) []freeCard { // o: free, m: free and the node's, .: taken
	var out []freeCard
	for i, c := range free {
		if c != '.' {
			out = append(out, freeCard{GPU: rowOf(len(free))[i].GPU, index: i, mine: c == 'm'})
		}
	}
	return out
}

// Cards that are chosen sit together, on one side of the middle, where the next ones fit.
func TestCardsThatSitTogether(t *testing.T) {
	for _, tt := range []struct {
		free  string
		count int
		want  []int
	}{
		{"oooooooo", 1, []int{0}}, {"oooooooo", 2, []int{0, 1}}, {".ooooooo", 2, []int{2, 3}}, {".oo.ooo.", 2, []int{4, 5}}, {".oo.....", 2, []int{1, 2}}, {"...oo..o", 2, []int{3, 4}}, {"...ooo.o", 2, []int{4, 5}},
		{"ooooommo", 2, []int{5, 6}}, {"oooooomo", 2, []int{6, 7}}, {"o.o.o.o.", 2, []int{0, 2}}, {"o..oo...", 2, []int{3, 4}}, {"oooooooo", 4, []int{0, 1, 2, 3}}, {".ooooooo", 4, []int{4, 5, 6, 7}}, {".oooooo.", 4, []int{1, 2, 3, 4}},
		{"oooooooo", 8, []int{0, 1, 2, 3, 4, 5, 6, 7}}, {".oooooo.", 5, []int{1, 2, 3, 4, 5}}, {".ooo.", 2, []int{2, 3}}, {"..ooo.", 2, []int{3, 4}}, {"mo", 1, []int{0}}, {"om", 1, []int{1}},
		{"m...oooo", 2, []int{0, 4}}, {".m..oooo", 3, []int{1, 4, 5}}, {"oo.moooo", 2, []int{1, 3}}, {"moooooom", 3, []int{0, 1, 7}}, {"mo.m...m", 2, []int{0, 3}}, {"m.oooomm", 4, []int{0, 5, 6, 7}},
	} {
		var got []int
		for _, g := range pick(seatsOf(tt.free), tt.count, len(tt.free)) {
			got = append(got, int(g.Address.Bus)-1)
		}
		assert.Equal(t, tt.want, got, "%d of %s", tt.count, tt.free)
	}
	// Whatever is free, as many as are asked for are chosen, of the free ones, in order.
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		free := strings.Map(func(rune) rune { return rune("o.m"[r.IntN(3)]) }, "xxxxxxxx")
		seats := seatsOf(free)
		for count := 1; count <= len(seats); count++ {
			got := pick(seats, count, len(free))
			require.Len(t, got, count)
			kept := slices.DeleteFunc(slices.Clone(got), func(g pci.GPU) bool { return free[g.Address.Bus-1] != 'm' })
			require.Len(t, kept, min(count, strings.Count(free, "m")), "%d of %s: what it has it keeps", count, free)
			for i, g := range got {
				assert.NotEqual(t, byte('.'), free[g.Address.Bus-1])
				assert.True(t, i == 0 || got[i-1].Address.Bus < g.Address.Bus)
			}
		}
	}
}

// TestCardsThatOthersHave: who asks for them is told whose they are.
func TestCardsThatOthersHave(t *testing.T) {
	card := func(i int) proxmox.PCIAddress { return rowOf(8)[i].Address.Whole() }
	b := func(cards []pci.Card) *book {
		return &book{spec: &spec.Spec{Name: "lab"}, host: "pve1", ledger: &pci.Ledger{Cards: cards}, strangers: map[proxmox.PCIAddress]foreignClaim{}, promised: map[proxmox.PCIAddress]string{}}
	}
	n := spec.Node{Name: "wk1", Host: "pve1", GPUs: spec.GPURequest{Count: 2}}
	taken := b(rowOf(4, "AD102 [RTX 4090]"))
	taken.strangers[card(1)], taken.promised[card(2)], taken.promised[card(3)] = foreignClaim{who: "VM 104 (win11)"}, "wk2", "wk1"
	n.GPUs.Model = "A100"
	_, err := taken.choose(n, nil)
	assert.EqualError(t, err, `wk1 requests 2 GPUs of model A100, and host pve1 has 1 available: 0000:01:00.0 is an AD102 [RTX 4090]; 0000:02:00.0 belongs to VM 104 (win11); 0000:03:00.0 belongs to node wk2`)
	n.GPUs.Model, n.GPUs.Count = "", 3
	_, err = b(rowOf(2)).choose(n, nil)
	assert.EqualError(t, err, "wk1 requests 3 GPUs, and host pve1 has 2 available: it has 2 in all")
	_, err = b(nil).choose(n, nil)
	assert.EqualError(t, err, "wk1 requests 3 GPUs, and host pve1 has 0 available: it has none, or the token may not see them: grant it Sys.Audit on /")
	n.GPUs = spec.GPURequest{Count: 1, PCI: []spec.PCIAddress{{Bus: 9}}}
	_, err = b(rowOf(1)).choose(n, nil)
	require.ErrorContains(t, err, "wk1 requests the GPUs at [")
	alone := rowOf(1)
	alone[0].IOMMUGroup = -1
	n.GPUs = spec.GPURequest{Count: 1}
	_, err = b(alone).choose(n, nil)
	require.ErrorContains(t, err, "0000:01:00.0 no IOMMU group")
	got, err := b(rowOf(3)).choose(n, []pci.GPU{rowOf(3)[2].GPU})
	require.NoError(t, err)
	assert.Equal(t, uint8(3), got[0].Address.Bus, "it keeps what it has")
}

func TestWhyTheseCards(t *testing.T) {
	all := rowOf(6, "A", "A", "B")
	n := spec.Node{Name: "wk1"}
	for want, cards := range map[string][]int{
		"0000:01:00: A, the first free one, IOMMU group 0 of its own": {0}, "0000:01:00, 0000:02:00: A, neighbours on the bus, IOMMU groups 0, 1 of their own": {0, 1},
		"0000:02:00, 0000:03:00: A, B, neighbours on the bus, IOMMU groups 1, 2 of their own":                                                          {1, 2},
		"0000:01:00, 0000:03:00: A, B, the closest free ones, with 1 other between them, IOMMU groups 0, 2 of their own":                               {0, 2},
		"0000:01:00, 0000:03:00, 0000:05:00: A, B, GA100 [A100], the closest free ones, with 2 others between them, IOMMU groups 0, 2, 4 of their own": {0, 2, 4},
	} {
		b := &book{spec: &spec.Spec{}, ledger: &pci.Ledger{Cards: all}}
		var its []pci.GPU
		for _, i := range cards {
			its = append(its, all[i].GPU)
		}
		assert.Equal(t, want, b.describe(n, its))
	}
	b := &book{spec: &spec.Spec{Placed: map[string]string{"wk1": "on pve1, the only host"}}, ledger: &pci.Ledger{Cards: all[:1]}}
	assert.Equal(t, "0000:01:00: A, the only one, IOMMU group 0 of its own, on pve1, the only host", b.describe(n, []pci.GPU{all[0].GPU}))
	both := grouped(7, 7)
	b.ledger.Cards = rowOf(2)
	assert.Contains(t, b.describe(n, both), "neighbours on the bus, together in IOMMU group 7, on pve1")
	n.GPUs.PCI = []spec.PCIAddress{{Bus: 1}}
	assert.Contains(t, b.describe(n, []pci.GPU{all[0].GPU}), "named in the file")
	for name, want := range map[string]string{"AD102": "an AD102", "GA100": "a GA100", "RTX A4000": "an RTX A4000", "Apple": "an Apple", "Tesla": "a Tesla", "H100": "an H100", "Hopper": "a Hopper", "A": "an A", "B": "a B", "": "a ", "8x": "a 8x", "80": "an 80", "Laptop": "a Laptop", "Nzxt": "a Nzxt"} {
		assert.Equal(t, want, withArticle(name))
	}
}
