package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// site is one host, pve1: its devices, the mappings, and others' claims.
type site struct {
	devices  []pci.Function
	mappings []pci.MappingState
	claims   []pci.Claim
}

const (
	a100 = "20f1 GA100 [A100 PCIe 40GB]"
	t4   = "1eb8 TU104GL [Tesla T4]"
)

// siteOf is a host with cards, each in the IOMMU group of its number (-1: none): on the buses 1, 2 …
func siteOf(models []string, groups ...int) *site {
	s := &site{}
	for i, m := range models {
		s.devices = append(s.devices, pci.Function{Address: bus(i + 1), Class: "030200", Vendor: "10de", Device: m[:4], Name: m[5:], IOMMUGroup: i + 20})
		if i < len(groups) {
			s.devices[i].IOMMUGroup = groups[i]
		}
	}
	return s
}

func bus(n int) proxmox.PCIAddress { return proxmox.PCIAddress{Bus: uint8(n)} }

// vm is a VM that has the cards on some buses by their addresses; its name says in which state it is.
func (s *site) vm(state string, buses ...int) *site {
	for i, b := range buses {
		s.claims = append(s.claims, pci.Claim{Host: "pve1", VMID: 100 + len(s.claims), Name: state, Running: state == "running", Template: state == "template",
			Slot: fmt.Sprintf("hostpci%d", i), Choices: [][]proxmox.PCIAddress{{bus(b)}}})
	}
	return s
}

// mapping is a mapping of the cards on some buses, each a card of its own.
func (s *site) mapping(id, description string, buses ...int) *site {
	m := pci.MappingState{Mapping: pci.Mapping{ID: id, Description: description}}
	for _, b := range buses {
		m.Add(fmt.Sprintf("node=pve1,path=%s,id=10de:20f1", bus(b).Whole()))
	}
	s.mappings = append(s.mappings, m)
	return s
}

func (s *site) ledger() *pci.Ledger {
	l := pci.NewLedger([]string{"pve1"}, map[string][]pci.Function{"pve1": s.devices}, s.mappings, nil, nil)
	l.Claims = s.claims
	for i := range l.Cards {
		for _, cl := range s.claims {
			if slices.ContainsFunc(cl.Choices, func(c []proxmox.PCIAddress) bool { return slices.Contains(c, l.Cards[i].Address) }) {
				l.Cards[i].Claims = append(l.Cards[i].Claims, cl)
			}
		}
	}
	return l
}

// lab is a cluster whose nodes want cards of pve1.
func lab(nodes ...spec.Node) *spec.Spec {
	for i := range nodes {
		nodes[i].Host = "pve1"
		if nodes[i].Name == "" {
			nodes[i].Name = fmt.Sprintf("wk%d", i+1)
		}
	}
	return &spec.Spec{Name: "lab", Nodes: nodes}
}

func wanting(count int, model string) spec.Node {
	return spec.Node{GPUs: spec.GPURequest{Count: count, Model: model}}
}

func naming(buses ...int) spec.Node {
	n := spec.Node{GPUs: spec.GPURequest{Count: len(buses)}}
	for _, b := range buses {
		n.GPUs.PCI = append(n.GPUs.PCI, bus(b).Whole())
	}
	return n
}

func using(mappings ...string) spec.Node {
	return spec.Node{GPUs: spec.GPURequest{Count: len(mappings), Mapping: mappings}}
}

// buses of the cards of each node; of one that cannot have its cards, nil.
func buses(a *Allotment) map[string][]int {
	out := map[string][]int{}
	for name, share := range a.Shares {
		out[name] = nil
		for _, g := range share.Cards {
			if share.Err == nil {
				out[name] = append(out[name], int(g.Address.Bus))
			}
		}
	}
	return out
}

// done is the site after an allotment: every node that has its cards has a mapping of them.
func (s *site) done(want *spec.Spec, a *Allotment) *site {
	out := &site{devices: s.devices, claims: s.claims}
	out.mappings = slices.DeleteFunc(slices.Clone(s.mappings), func(m pci.MappingState) bool { return m.Description == names.MappingNote(want) })
	got := buses(a)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if len(got[name]) > 0 {
			out.mapping(names.Mapping(want, name), names.MappingNote(want), got[name]...)
		}
	}
	return out
}

func someSite(r *rand.Rand) *site {
	models := make([]string, 1+r.IntN(7))
	groups := make([]int, len(models))
	for i := range models {
		models[i], groups[i] = []string{a100, a100, t4}[r.IntN(3)], 20+i
		if r.IntN(3) == 0 {
			groups[i] = r.IntN(3) - r.IntN(2)
		}
	}
	s := siteOf(models, groups...)
	s.strangers(r, 4)
	return s
}

// strangers let others claim one card of so many.
func (s *site) strangers(r *rand.Rand, of int) {
	for i := range s.devices {
		switch r.IntN(3 * of) {
		case 0, 1:
			s.vm([]string{"running", "stopped", "template"}[r.IntN(3)], i+1)
		case 2:
			s.mapping(fmt.Sprintf("other_wk%d", i), names.MappingNotePrefix+"other", i+1)
		}
	}
}

func someLab(r *rand.Rand, cards int) *spec.Spec {
	nodes := make([]spec.Node, 1+r.IntN(3))
	for i := range nodes {
		nodes[i] = wanting(1+r.IntN(3), []string{"", "", "A100", "T4"}[r.IntN(4)])
		if r.IntN(6) == 0 {
			nodes[i] = naming(1 + r.IntN(cards))
		}
	}
	named := map[int]bool{} // a file that names a card twice is not read
	for i, n := range nodes {
		for _, a := range n.GPUs.PCI {
			if named[int(a.Bus)] {
				nodes[i] = wanting(1, "")
			}
			named[int(a.Bus)] = true
		}
	}
	return lab(nodes...)
}

// What holds of every site: a card goes to one node, which wants such a one, and to none that another
// owner has; a group of cards is not divided; who has its cards keeps them; and a second look, in
// whatever order things are listed, gives the same.
func TestCardsOfAnySite(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	given, refused, moved := 0, 0, 0
	for range 300 {
		s := someSite(r)
		want := someLab(r, len(s.devices))
		first := Allot(want, "pve1", s.ledger())
		sound(t, want, s, first)
		after := s.done(want, first)
		second := Allot(want, "pve1", after.ledger())
		for name, b := range buses(first) {
			if b != nil {
				require.Equal(t, b, buses(second)[name], "%s keeps what it has: %s", name, after)
				require.Empty(t, second.Holders(name), "it waits for nobody")
				given++
			} else {
				refused++
			}
		}
		// The site changes, and the file.
		after.strangers(r, 10)
		next := someLab(r, len(s.devices))
		third := Allot(next, "pve1", after.ledger())
		sound(t, next, after, third)
		for name, b := range buses(third) {
			old, _ := want.Node(name)
			now, _ := next.Node(name)
			if was := buses(first)[name]; was != nil && !slices.Equal(b, was) {
				moved++
				lost := slices.ContainsFunc(first.Shares[name].Cards, func(g pci.GPU) bool {
					card, _ := after.ledger().Card("pve1", g.Address)
					return foreign(card, after.ledger()) || slices.ContainsFunc(next.Nodes, func(o spec.Node) bool { return o.Name != name && slices.Contains(o.GPUs.PCI, g.Address.Whole()) })
				})
				require.False(t, reflect.DeepEqual(old, now) && !lost, "%s has %v for no reason, and had %v: %s", name, b, was, after)
			}
		}
		require.Equal(t, buses(third), buses(Allot(next, "pve1", after.shuffled(r).ledger())), "in another order: %s", after)
	}
	require.Greater(t, min(given, refused, moved), 50, "%d given, %d refused, %d moved", given, refused, moved)
}

func (s *site) shuffled(r *rand.Rand) *site {
	out := &site{devices: s.devices, mappings: slices.Clone(s.mappings), claims: slices.Clone(s.claims)}
	r.Shuffle(len(out.claims), func(i, k int) { out.claims[i], out.claims[k] = out.claims[k], out.claims[i] })
	r.Shuffle(len(out.mappings), func(i, k int) { out.mappings[i], out.mappings[k] = out.mappings[k], out.mappings[i] })
	return out
}

func (s *site) String() string {
	var out string
	for _, d := range s.devices {
		out += fmt.Sprintf("\n  bus %d: %s, group %d", d.Address.Bus, d.Name, d.IOMMUGroup)
	}
	for _, m := range s.mappings {
		out += fmt.Sprintf("\n  mapping %s (%s):", m.ID, m.Description)
		for _, d := range m.Devices {
			out += fmt.Sprintf(" %d", d.Address.Bus)
		}
	}
	for _, cl := range s.claims {
		out += fmt.Sprintf("\n  %s %d: bus %d", cl.Name, cl.VMID, cl.Choices[0][0].Bus)
	}
	return out
}

// sound checks an allotment by what a person would say of it.
func sound(t *testing.T, want *spec.Spec, s *site, a *Allotment) {
	t.Helper()
	l := s.ledger()
	owner := map[int]string{}
	for name, b := range buses(a) {
		n, _ := want.Node(name)
		if b == nil {
			if err := a.Shares[name].Err; len(want.Nodes) == 1 && !strings.Contains(err.Error(), "claimed twice") { // what it has does not move on its own
				require.False(t, possible(n, l), "%s could have cards, and is told %v\n%s", name, a.Shares[name].Err, s)
			}
			continue
		}
		require.Len(t, b, n.GPUs.Count, "%s", s)
		require.True(t, slices.IsSorted(b))
		for _, g := range a.Shares[name].Cards {
			require.True(t, Candidate(n, g), "%s is not what %s wants", g.Name, name)
			require.Empty(t, owner[int(g.Address.Bus)], "%v has two nodes", g.Address)
			owner[int(g.Address.Bus)] = name
			card, _ := l.Card("pve1", g.Address)
			require.False(t, foreign(card, l), "%v is another's: %s", g.Address, s)
		}
	}
	for _, card := range l.Cards {
		for _, m := range card.GroupMembers {
			mine, its := owner[int(card.Address.Bus)], owner[int(m.Address.Bus)]
			require.True(t, mine == its || mine == "" || its == "", "group %d is divided between %s and %s", m.IOMMUGroup, mine, its)
			mate, _ := l.Card("pve1", m.Address)
			require.False(t, mine != "" && foreign(mate, l), "a part of group %d is another's, and one is of %s: %s", m.IOMMUGroup, mine, s)
		}
	}
}

func foreign(card pci.Card, l *pci.Ledger) bool {
	return slices.ContainsFunc(card.Claims, func(cl pci.Claim) bool { return !cl.Template }) ||
		slices.ContainsFunc(card.Mappings, func(id string) bool { return Mapping(l.Mappings, id).Description == names.MappingNotePrefix+"other" })
}

// possible reports whether a node that is alone could have its cards: some set of free ones that
// divides no group.
func possible(n spec.Node, l *pci.Ledger) bool {
	for set := range 1 << len(l.Cards) {
		in := func(a proxmox.PCIAddress) bool { return set>>(a.Bus-1)&1 == 1 }
		size, fit := 0, true
		for _, card := range l.Cards {
			if in(card.Address) {
				size++
				fit = fit && Candidate(n, card.GPU) && card.Problem() == "" && !foreign(card, l) && !slices.ContainsFunc(card.GroupMembers, func(m pci.Function) bool { return !in(m.Address) })
			}
		}
		if fit && size == n.GPUs.Count {
			return true
		}
	}
	return false
}
