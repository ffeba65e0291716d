package placement

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// A host takes what it has room for, to the last core, card and byte.
func TestRoomOnAHost(t *testing.T) {
	s := siteOf([]string{a100, a100, t4, t4}, 21, 22, 23, 23).vm("stopped", 2)
	want := func() *spec.Spec {
		return &spec.Spec{Name: "lab", Nodes: []spec.Node{
			{Name: "wk1", Host: spec.AnyHost, Cores: 4, Memory: 8 * spec.GiB, GPUs: spec.GPURequest{Count: 2, Model: "T4"}, OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "a"}}, Disks: []spec.Disk{{DiskOptions: spec.DiskOptions{Storage: "b"}}}},
			{Name: "wk2", Host: "pve2"},
		}}
	}
	for lack, change := range map[string]func(r *room, n *spec.Node){
		"":                        func(*room, *spec.Node) {},
		"is down":                 func(r *room, _ *spec.Node) { r.up = false },
		"has 2 such GPUs free":    func(_ *room, n *spec.Node) { n.GPUs.Count = 3 },
		"has 0 such GPUs free":    func(_ *room, n *spec.Node) { n.GPUs.Model = "H100" },
		"has 1 such GPU free":     func(_ *room, n *spec.Node) { n.GPUs.Model = "A100" },
		"has 7GiB of memory left": func(r *room, _ *spec.Node) { r.memory-- },
		"has 0B of memory left":   func(r *room, _ *spec.Node) { r.memory = -spec.GiB },
		"has 3 CPUs":              func(r *room, _ *spec.Node) { r.cpus = 3 },
		"has no storage a":        func(r *room, _ *spec.Node) { r.storages = r.storages[1:] },
		"has no storage b":        func(r *room, _ *spec.Node) { r.storages = r.storages[:1] },
		"has 2 such GPUs free, and one VM must have all of an IOMMU group": func(_ *room, n *spec.Node) { n.GPUs.Count = 1 },
	} {
		ask := want()
		r := &room{host: "pve1", up: true, cpus: 4, memory: 8 * proxmox.GiB, storages: []string{"a", "b"}, ledger: s.ledger()}
		r.cards = Allot(ask, r.host, r.ledger)
		change(r, &ask.Nodes[0])
		with, why := (&placing{spec: ask}).cardsWith(r, &ask.Nodes[0])
		assert.Equal(t, lack, cmp.Or(why, r.missing(ask.Nodes[0])))
		assert.Equal(t, why == "", with != nil)
		assert.Equal(t, spec.AnyHost, ask.Nodes[0].Host, "it is only tried")
	}
}

// A node that comes takes nothing from one that is there: here, the only card that is good for it.
func TestWhoComesTakesNothingAway(t *testing.T) {
	ask := lab(wanting(1, "A100"), wanting(1, "A100 80GB"))
	ask.Nodes[0].Host = spec.AnyHost
	for why, row := range map[string][]string{
		"": {"20f1 GA100 [A100 PCIe 40GB]", "20b5 GA100 [A100 PCIe 80GB]", t4},
		"has 1 such GPU free, and wk2 would have none": {"20b5 GA100 [A100 PCIe 80GB]", "20f1 GA100 [A100 PCIe 40GB]", t4},
		"has 0 such GPUs free":                         {"20b5 GA100 [A100 PCIe 80GB]", t4},
	} {
		r := &room{host: "pve1", up: true, ledger: siteOf(row).ledger()}
		r.cards = Allot(ask, "pve1", r.ledger)
		_, got := (&placing{spec: ask}).cardsWith(r, &ask.Nodes[0])
		assert.Equal(t, why, got)
	}
	// One that takes any card takes another then.
	ask = lab(wanting(1, "A100"), wanting(1, ""))
	ask.Nodes[0].Host = spec.AnyHost
	r := &room{host: "pve1", up: true, ledger: siteOf([]string{a100, t4}).ledger()}
	r.cards = Allot(ask, "pve1", r.ledger)
	with, why := (&placing{spec: ask}).cardsWith(r, &ask.Nodes[0])
	assert.Empty(t, why)
	assert.Equal(t, map[string][]int{"wk1": {1}, "wk2": {2}}, buses(with))
}

// Who is placed on a host gets its cards there, and nobody who was there before loses its own.
func TestWhoIsPlacedGetsItsCards(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	placed, refused := 0, 0
	for range 200 {
		want := someLab(r, 3)
		p := &placing{spec: want}
		want.Placed = map[string]string{}
		for i := range want.Nodes {
			if n := &want.Nodes[i]; len(n.GPUs.PCI) == 0 && r.IntN(4) > 0 {
				n.Host = spec.AnyHost
			}
		}
		for _, host := range []string{"pve1", "pve2"} {
			s := someSite(r)
			at := &room{host: host, up: true, storages: []string{""}, ledger: s.ledger()}
			for i := range at.ledger.Cards {
				at.ledger.Cards[i].Host = host
			}
			at.cards = Allot(want, host, at.ledger)
			p.rooms = append(p.rooms, at)
		}
		refusals := func() (out []string) {
			for _, at := range p.rooms {
				for name, share := range Allot(want, at.host, at.ledger).Shares {
					if share.Err != nil {
						out = append(out, name)
					}
				}
			}
			slices.Sort(out)
			return out
		}
		before := refusals()
		for i := range want.Nodes {
			n := &want.Nodes[i]
			if !n.Unplaced() {
				continue
			}
			if p.choose(n) == nil {
				require.NotEmpty(t, want.Placed[n.Name])
				placed++
			} else {
				require.True(t, n.Unplaced())
				refused++
			}
		}
		require.Equal(t, before, refusals())
	}
	require.Greater(t, min(placed, refused), 50)
}

// A node that wants GPUs goes where a mapping of ours has cards for it.
func TestMappingsThatAreThereChooseTheHost(t *testing.T) {
	for want, change := range map[string]func(n *spec.Node, m *pci.MappingState){
		"pve2":             func(*spec.Node, *pci.MappingState) {},
		spec.AnyHost:       func(n *spec.Node, _ *pci.MappingState) { n.GPUs.Count = 0 },
		spec.AnyHost + "+": func(_ *spec.Node, m *pci.MappingState) { m.Description = "somebody's" },
		spec.AnyHost + "-": func(_ *spec.Node, m *pci.MappingState) { m.Devices = nil },
		spec.AnyHost + "=": func(_ *spec.Node, m *pci.MappingState) { m.ID = "lab_other" },
		spec.AnyHost + "*": func(_ *spec.Node, m *pci.MappingState) { m.Devices[0].Host = "pve3" },
		"pve1":             func(n *spec.Node, _ *pci.MappingState) { n.Host = "pve1" },
	} {
		s := &spec.Spec{Name: "lab", Nodes: []spec.Node{{Name: "other", Host: "pve1"}, {Name: "wk1", Host: spec.AnyHost, GPUs: spec.GPURequest{Count: 1}}}}
		m := pci.MappingState{Mapping: pci.Mapping{ID: "lab_wk1", Description: names.MappingNote(s), Devices: []pci.MappedDevice{{Host: "pve2"}}}}
		change(&s.Nodes[1], &m)
		p := &placing{spec: s, rooms: []*room{{host: "pve1"}, {host: "pve2"}}}
		p.placeByMapping(&pci.Ledger{Mappings: []pci.MappingState{m}})
		assert.Equal(t, strings.TrimRight(want, "+-=*"), s.Nodes[1].Host, want)
		assert.Equal(t, "pve1", s.Nodes[0].Host)
	}
}
