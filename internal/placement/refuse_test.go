package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

var ours = names.MappingNotePrefix + "lab"

// Who cannot have its cards is told what is in the way, and what helps.
func TestWhyANodeHasNoCards(t *testing.T) {
	row := []string{a100, a100, t4}
	both := []string{a100, a100}
	virtual := siteOf(both, 21, 21)
	virtual.devices[1].Address, virtual.devices[1].Physical = proxmox.PCIAddress{Bus: 1, Function: 4}, &proxmox.PCIAddress{Bus: 1}
	part := naming(1)
	part.GPUs.PCI[0].Function = 4
	for name, tt := range map[string]struct {
		site  *site
		nodes []spec.Node
		want  string // of wk1
	}{
		"too many": {siteOf(row), []spec.Node{wanting(4, "")}, "wk1 requests 4 GPUs, and host pve1 has 3 available: it has 3 in all"},
		"the model": {siteOf(row), []spec.Node{wanting(2, "T4")},
			"wk1 requests 2 GPUs of model T4, and host pve1 has 1 available: 0000:01:00.0 is a GA100 [A100 PCIe 40GB]; 0000:02:00.0 is a GA100 [A100 PCIe 40GB]"},
		"one that no driver works with": {siteOf([]string{"102d GK210GL [Tesla K80]", "none odd"}), []spec.Node{wanting(1, "A100")},
			"wk1 requests 1 GPU of model A100, and host pve1 has 0 available: 0000:01:00.0 is a GK210GL [Tesla K80], and no supported driver works with it: branch 470 is the last; 0000:02:00.0 is an odd"},
		"others": {siteOf(row).vm("stopped", 1).vm("template", 2).mapping("far_a", names.MappingNotePrefix+"far", 2).mapping("mine", "by hand", 3), []spec.Node{wanting(2, "")},
			"wk1 requests 2 GPUs, and host pve1 has 1 available: 0000:01:00.0 belongs to VM 100 (stopped), by address as hostpci0, stopped; 0000:02:00.0 belongs to cluster far, by its mapping far_a"},
		"who runs is named": {siteOf(row[:1]).vm("stopped", 1).vm("running", 1).vm("stopped", 1).mapping("far_a", names.MappingNotePrefix+"far", 1), []spec.Node{wanting(1, "")},
			"wk1 requests 1 GPU, and host pve1 has 0 available: 0000:01:00.0 belongs to VM 101 (running), by address as hostpci0, running"},
		"no group": {siteOf(row, 20, -1, -1), []spec.Node{wanting(2, "A100")},
			"wk1 requests 2 GPUs of model A100, and host pve1 has 1 available: 0000:02:00.0 no IOMMU group: switch the IOMMU on in the firmware and on the kernel's command line; 0000:03:00.0 is a TU104GL [Tesla T4]"},
		"the next node's": {siteOf(row), []spec.Node{wanting(3, ""), naming(2)}, "wk1 requests 3 GPUs, and host pve1 has 2 available: 0000:02:00.0 belongs to node wk2"},
		"a group": {siteOf(both, 21, 21), []spec.Node{wanting(1, "")},
			"wk1 requests 1 GPU, and of host pve1's free ones these go to one VM together or to none: 0000:01:00, 0000:02:00 share IOMMU group 21\n  " + cureOfGroup},
		"too many of groups": {siteOf(both, 21, 21), []spec.Node{wanting(3, "")}, "wk1 requests 3 GPUs, and host pve1 has 2 available: it has 2 in all"},
		"a group with another's": {siteOf(both, 21, 21).vm("stopped", 2), []spec.Node{wanting(1, "")},
			"wk1 requests 1 GPU, and host pve1 has 0 available: 0000:02:00.0 belongs to VM 100 (stopped), by address as hostpci0, stopped; " +
				"0000:01:00.0 shares IOMMU group 21 with 0000:02:00.0, which belongs to VM 100 (stopped), by address as hostpci0, stopped\n  " + cureOfGroup},
		"a group with the next node's": {siteOf(row, 21, 21), []spec.Node{wanting(2, ""), naming(2)},
			"wk1 requests 2 GPUs, and host pve1 has 1 available: 0000:02:00.0 belongs to node wk2; 0000:01:00.0 shares IOMMU group 21 with 0000:02:00.0, which belongs to node wk2\n  " + cureOfGroup},
		"a group with another model": {siteOf([]string{a100, t4}, 21, 21), []spec.Node{wanting(1, "A100")},
			"wk1 requests 1 GPU of model A100, and host pve1 has 0 available: 0000:02:00.0 is a TU104GL [Tesla T4]; 0000:01:00.0 shares IOMMU group 21 with 0000:02:00.0, which is a TU104GL [Tesla T4]\n  " + cureOfGroup},
		"a group that the file divides": {siteOf(row, 21, 21), []spec.Node{naming(1)},
			"wk1 requests the GPUs at [0000:01:00], and host pve1 has 0 available: 0000:01:00.0 shares IOMMU group 21 with 0000:02:00.0, which wk1 does not name\n  " + cureOfGroup},
		"a card that is another's, by its address": {siteOf(row).vm("stopped", 2), []spec.Node{naming(1, 2)},
			"GPU 0000:02:00 on pve1 is claimed twice: by wk1, and by VM 100 (stopped), by address as hostpci0, stopped\n  remove it from the VM, on pve1: qm set 100 --delete hostpci0, or give the node another card"},
		"another cluster's, by its address": {siteOf(row).mapping("far_a", names.MappingNotePrefix+"far", 2), []spec.Node{naming(2)},
			"GPU 0000:02:00 on pve1 is claimed twice: by wk1, and by cluster far, by its mapping far_a\n  remove the node from that cluster's file and run cluster:up there, or give this node another card"},
		"a part of a card": {virtual, []spec.Node{part},
			"wk1 requests the GPUs at [0000:01:00.4], and host pve1 has 0 available: 0000:01:00.0 is a GA100 [A100 PCIe 40GB]; 0000:01:00.4 is a part of the card at 0000:01:00.0 (A100 PCIe 40GB): name that"},
		"no cards": {siteOf(nil), []spec.Node{wanting(1, "")}, "wk1 requests 1 GPU, and host pve1 has 0 available: it has none, or the token may not see them: grant it Sys.Audit on /"},
		"a mapping by hand": {siteOf(row).mapping("lab_wk1", "by hand", 1), []spec.Node{wanting(1, "")},
			"homelab did not create the resource mapping lab_wk1 (its description is \"by hand\")\n  name it under gpus.mapping of wk1 to use it unchanged, or remove it"},
		"what it has is another's now": {siteOf(row).mapping("lab_wk1", ours, 2).vm("stopped", 2), []spec.Node{wanting(1, "")},
			"GPU 0000:02:00 on pve1 is claimed twice: by wk1, and by VM 100 (stopped), by address as hostpci0, stopped\n  remove it from the VM, on pve1: qm set 100 --delete hostpci0, or give the node another card"},
		"a mapping of no card": {siteOf(row).mapping("disk", "", 9), []spec.Node{using("disk", "none")}, ""},
		"a mapping elsewhere": {&site{devices: siteOf(row).devices, mappings: []pci.MappingState{{Mapping: pci.Mapping{ID: "far", Devices: []pci.MappedDevice{{Host: "pve2"}}}}}}, []spec.Node{using("far")},
			"gpus.mapping of wk1: far: it has no device on pve1; it has some on pve2\n  name mappings of NVIDIA cards, or write gpus: 1 to have homelab choose them"},
		"a mapping of two nodes": {siteOf(row).mapping("one", "", 1), []spec.Node{using("one"), using("one")},
			"gpus.mapping of wk1: 0000:01:00 on pve1 cannot serve all who may want them: node wk1; node wk2\n  give the mapping more cards, or remove it from one of them"},
		"a mapping twice":                {siteOf(row).mapping("one", "", 1), []spec.Node{using("one", "one")}, "gpus.mapping of wk1: 0000:01:00 on pve1 cannot serve all who may want them: node wk1\n  give the mapping more cards, or remove it from one of them"},
		"a mapping and its card by name": {siteOf(row).mapping("one", "", 1), []spec.Node{using("one"), naming(1)}, "gpus.mapping of wk1: 0000:01:00 on pve1 cannot serve all who may want them: node wk1; node wk2\n  give the mapping more cards, or remove it from one of them"},
		"a mapping and a VM": {siteOf(row).mapping("two", "", 1, 2).vm("stopped", 1).vm("running", 2), []spec.Node{using("two")},
			"gpus.mapping of wk1: 0000:01:00, 0000:02:00 on pve1 cannot serve all who may want them: VM 100 (stopped) by address as hostpci0, stopped; " +
				"VM 101 (running) by address as hostpci0, running; node wk1\n  give the mapping more cards, or remove it from one of them"},
		"a mapping with enough":               {siteOf(row).mapping("two", "", 1, 2), []spec.Node{using("two"), using("two"), wanting(1, "")}, ""},
		"others' quarrel is theirs":           {siteOf(row).mapping("one", "", 1).vm("stopped", 2).vm("stopped", 2), []spec.Node{using("one")}, ""},
		"other nodes' quarrel is theirs":      {siteOf(row).mapping("one", "", 1).mapping("two", "", 2), []spec.Node{using("one"), using("two"), using("two")}, ""},
		"a VM of its name, about other cards": {siteOf(row).mapping("one", "", 1).vm("wk1", 2).vm("wk1", 2), []spec.Node{using("one")}, ""},
		"a mapping in a group":                {siteOf(row, 21, 21).mapping("one", "", 1), []spec.Node{using("one")}, ""},
		"a mapping in another's group": {siteOf(row, 21, 21).mapping("one", "", 1).vm("stopped", 2), []spec.Node{using("one")},
			"gpus.mapping of wk1: one: 0000:01:00.0 shares IOMMU group 21 with 0000:02:00.0, which belongs to VM 100 (stopped), by address as hostpci0, stopped\n  " + cureOfGroup},
	} {
		share := Allot(lab(tt.nodes...), "pve1", tt.site.ledger()).Shares["wk1"]
		if tt.want == "" {
			assert.NoError(t, share.Err, name)
			continue
		}
		if assert.Error(t, share.Err, name) {
			assert.Equal(t, tt.want, share.Err.Error(), name)
		}
	}
}

// Who wants a model chooses before those that take any card.
func TestModelsAreChosenFirst(t *testing.T) {
	got := buses(Allot(lab(wanting(1, ""), wanting(1, "T4"), wanting(1, "")), "pve1", siteOf([]string{t4, a100, a100}).ledger()))
	assert.Equal(t, map[string][]int{"wk1": {2}, "wk2": {1}, "wk3": {3}}, got)
}

// Cards that cannot be divided or shared as the file wants are none for a node that takes any card,
// unless it has them already.
func TestCardsThatCannotBeShared(t *testing.T) {
	const p40, odd = "1b38 GP102GL [Tesla P40]", "3fff XX100 [not in the table]"
	row := []string{p40, t4, a100, odd}
	sharing := func(strategy string, layouts ...spec.MIGLayout) spec.Sharing {
		return spec.Sharing{Strategy: strategy, Replicas: 2, Layouts: layouts}
	}
	every, some := spec.MIGLayout{Profiles: map[string]int{"1g.5gb": 7}}, spec.MIGLayout{GPUs: []int{1}}
	for _, tt := range []struct {
		sharing spec.Sharing
		node    spec.Node
		want    []int
	}{
		{sharing(spec.SharingMIG, every), wanting(1, ""), []int{3}}, {sharing(spec.SharingMIG, every), wanting(2, ""), []int{3, 4}}, {sharing(spec.SharingMIG, every), wanting(3, ""), nil},
		{sharing(spec.SharingMIG, every, some), wanting(3, ""), []int{1, 2, 3}}, {sharing(spec.SharingMIG, some), wanting(1, ""), []int{1}}, {sharing(spec.SharingMIG, every), wanting(1, "T4"), []int{2}},
		{sharing(spec.SharingMPS), wanting(1, ""), []int{2}}, {sharing(spec.SharingMPS), wanting(4, ""), nil}, {sharing(spec.SharingMPS), naming(1), []int{1}},
		{sharing(spec.SharingTimeSlicing), wanting(1, ""), []int{1}},
	} {
		tt.node.GPUs.Sharing = tt.sharing
		got := Allot(lab(tt.node), "pve1", siteOf(row).ledger())
		assert.Equal(t, tt.want, buses(got)["wk1"], "%+v", tt.node.GPUs)
	}
	n := wanting(2, "")
	n.GPUs.Sharing = sharing(spec.SharingMPS)
	assert.Equal(t, []int{1, 2}, buses(Allot(lab(n), "pve1", siteOf(row).mapping("lab_wk1", ours, 1).ledger()))["wk1"], "it has one already")
	err := Allot(lab(n), "pve1", siteOf([]string{p40}).ledger()).Shares["wk1"].Err
	assert.EqualError(t, err, "wk1 requests 2 GPUs, and host pve1 has 0 available: 0000:01:00.0 is a GP102GL [Tesla P40]: it cannot be shared by MPS")
	a := Allot(lab(), "pve1", siteOf(row).ledger())
	assert.Equal(t, []int{3, 4, 0}, []int{matching(a, n), matching(a, wanting(1, "")), matching(a, wanting(0, ""))})
}

// What does not stand in the way: copies of ours, templates, a container by its number, a machine
// that is taken over.
func TestClaimsThatAreNone(t *testing.T) {
	tag := names.Tag(lab())
	claim := pci.Claim{Host: "pve1", VMID: 100, Name: "other", Slot: "hostpci0", Choices: [][]proxmox.PCIAddress{{bus(1)}}}
	adopting := wanting(1, "")
	adopting.Adopt = true
	for name, tt := range map[string]struct {
		node   spec.Node
		change func(cl *pci.Claim)
		want   []int // nil: an error
	}{
		"a VM":                           {wanting(1, ""), func(*pci.Claim) {}, nil},
		"a copy of ours":                 {wanting(1, ""), func(cl *pci.Claim) { cl.Mapping, cl.Tags = "lab_wk1", []string{"x", tag} }, []int{1}},
		"one with our tag":               {wanting(1, ""), func(cl *pci.Claim) { cl.Tags = []string{tag} }, nil},
		"one with our mapping":           {wanting(1, ""), func(cl *pci.Claim) { cl.Mapping = "lab_wk1" }, nil},
		"a template":                     {wanting(1, ""), func(cl *pci.Claim) { cl.Template = true }, []int{1}},
		"a container, and it has it":     {wanting(1, ""), func(cl *pci.Claim) { cl.Container = true }, []int{1}},
		"it is taken over":               {adopting, func(cl *pci.Claim) { cl.Name = "wk1" }, []int{1}},
		"one of its name, not adopted":   {wanting(1, ""), func(cl *pci.Claim) { cl.Name = "wk1" }, nil},
		"another one than is taken over": {adopting, func(*pci.Claim) {}, nil},
	} {
		cl := claim
		tt.change(&cl)
		s := siteOf([]string{a100, a100}).mapping("lab_wk1", ours, 1)
		s.claims = []pci.Claim{cl}
		assert.Equal(t, tt.want, buses(Allot(lab(tt.node), "pve1", s.ledger()))["wk1"], name)
	}
	// A container has the card that the driver counts so, unless a VM of ours has it already.
	claim.Container, claim.Device = true, "/dev/nvidia0"
	s := siteOf([]string{a100, a100})
	s.claims = []pci.Claim{claim}
	assert.Equal(t, []int{2}, buses(Allot(lab(wanting(1, "")), "pve1", s.ledger()))["wk1"])
	// Its guess hides no VM's claim.
	s = siteOf([]string{a100}).mapping("lab_wk1", ours, 1).vm("stopped", 1)
	claim.Running = true
	s.claims = append(s.claims, claim)
	require.ErrorContains(t, Allot(lab(wanting(1, "")), "pve1", s.ledger()).Shares["wk1"].Err, "claimed twice: by wk1, and by VM 100 (stopped)")
}

// A machine that is taken over keeps the cards that it has, and its other ones are chosen.
func TestCardsOfAMachineThatIsTakenOver(t *testing.T) {
	for _, tt := range []struct {
		node spec.Node
		want []int
	}{{wanting(1, ""), []int{3}}, {wanting(2, ""), []int{3, 4}}, {naming(2), []int{2}}, {wanting(1, "T4"), []int{1}}, {wanting(2, "A100"), []int{3, 4}}} {
		tt.node.Adopt = true
		s := siteOf([]string{t4, a100, a100, a100}).vm("wk1", 3)
		assert.Equal(t, tt.want, buses(Allot(lab(tt.node), "pve1", s.ledger()))["wk1"], "%+v", tt.node.GPUs)
	}
	other := wanting(1, "")
	s := siteOf([]string{a100, a100}).vm("wk2", 1)
	taken := wanting(1, "")
	taken.Adopt = true
	assert.Equal(t, map[string][]int{"wk1": {2}, "wk2": {1}}, buses(Allot(lab(other, taken), "pve1", s.ledger())), "nobody else gets it")
}

// Cards go from one node to another when the file says so: the new owner waits for the old one.
func TestWhoWaitsForWhom(t *testing.T) {
	s := siteOf([]string{a100, a100, a100, a100}).mapping("lab_wk1", ours, 1).mapping("lab_wk2", ours, 2).mapping("lab_wk3", ours, 3)
	turn := Allot(lab(naming(2), naming(3), naming(1), wanting(1, "")), "pve1", s.ledger())
	assert.Equal(t, map[string][]int{"wk1": {2}, "wk2": {3}, "wk3": {1}, "wk4": {4}}, buses(turn))
	assert.Equal(t, []string{"wk2", "wk3"}, turn.Holders("wk1"), "round in a circle, each once")
	assert.Empty(t, turn.Holders("wk4"))
	assert.Equal(t, []string{"wk1", "wk2", "wk3"}, turn.ExchangeCycle("wk2"))
	assert.Empty(t, turn.ExchangeCycle("wk4"), "it gets a new one")

	s = siteOf([]string{a100, a100, a100}).mapping("lab_wk1", ours, 1, 2).mapping("lab_wk2", ours, 3)
	back := Allot(lab(wanting(1, ""), naming(2)), "pve1", s.ledger())
	assert.Equal(t, map[string][]int{"wk1": {1}, "wk2": {2}}, buses(back))
	assert.Empty(t, back.ExchangeCycle("wk1"))
	assert.Empty(t, back.ExchangeCycle("wk2"))
	assert.Equal(t, []string{"wk1"}, back.Holders("wk2"))

	// A node that gets no cards any more may still have them until its machine restarts.
	s = siteOf([]string{a100, a100}).mapping("lab_wk1", ours, 1).mapping("lab_wk2", ours, 2)
	gone := Allot(lab(wanting(0, ""), naming(1)), "pve1", s.ledger())
	assert.Empty(t, gone.Holders("wk2"))
	gone.AddHeld("wk1", []string{bus(1).Whole().String(), bus(2).Whole().String()})
	assert.Equal(t, []string{"wk1"}, gone.Holders("wk2"))
	assert.Empty(t, gone.ExchangeCycle("wk2"))
	gone.AddHeld("wk3", []string{bus(1).Whole().String()})
	assert.Equal(t, []string{"wk1"}, gone.Holders("wk2"), "who has it first")

	// What another node has yet to return is taken only where nothing else is free.
	s = siteOf([]string{a100, a100, a100}).mapping("lab_wk2", ours, 1, 2)
	idle := Allot(lab(wanting(1, ""), wanting(1, "")), "pve1", s.ledger())
	assert.Equal(t, map[string][]int{"wk1": {3}, "wk2": {1}}, buses(idle))
	idle = Allot(lab(wanting(2, ""), wanting(1, "")), "pve1", s.ledger())
	assert.Equal(t, map[string][]int{"wk1": {2, 3}, "wk2": {1}}, buses(idle))
	assert.Equal(t, []string{"wk2"}, idle.Holders("wk1"))
}

// A node surely has its cards where the host has no others for it.
func TestCardsThatANodeCertainlyHas(t *testing.T) {
	for name, tt := range map[string]struct {
		site *site
		want bool
	}{
		"all of the host":         {siteOf([]string{a100, a100}), true},
		"one more":                {siteOf([]string{a100, a100, a100}), false},
		"one that runs elsewhere": {siteOf([]string{a100, a100, a100}).vm("running", 3), true},
		"one that is only named":  {siteOf([]string{a100, a100, a100}).vm("stopped", 3), false},
		"another node's":          {siteOf([]string{a100, a100, a100}).mapping("lab_wk2", ours, 3), true},
		"its own":                 {siteOf([]string{a100, a100}).mapping("lab_wk1", ours, 1), true},
	} {
		assert.Equal(t, tt.want, Allot(lab(wanting(2, ""), wanting(1, "")), "pve1", tt.site.ledger()).Shares["wk1"].Certain, name)
	}
	s := siteOf([]string{a100, a100, a100}).vm("running", 3)
	s.claims[0].Choices = append(s.claims[0].Choices, []proxmox.PCIAddress{bus(2)})
	assert.False(t, Allot(lab(wanting(2, "")), "pve1", s.ledger()).Shares["wk1"].Certain, "a VM that has one of two")
}
