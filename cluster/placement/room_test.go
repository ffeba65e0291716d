package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/spec"
)

// A host takes what it has room for, to the last core, card and byte.
func TestRoomOnAHost(t *testing.T) {
	n := spec.Node{Name: "wk1", Cores: 4, Memory: 8 * spec.GiB, GPUs: spec.GPURequest{Count: 2}, OSDisk: spec.OSDisk{DiskOptions: spec.DiskOptions{Storage: "a"}}, Disks: []spec.Disk{{DiskOptions: spec.DiskOptions{Storage: "b"}}}}
	roomy := func() *room {
		return &room{host: "pve1", up: true, cpus: 4, memory: 8 * proxmox.GiB, storages: []string{"a", "b"}}
	}
	cards := []pci.GPU{rowOf(2)[0].GPU, rowOf(2)[1].GPU}
	p := &placing{spec: &spec.Spec{}, cards: map[string][]pci.GPU{"pve1": cards}}
	assert.Empty(t, p.lacks(roomy(), n))
	for want, change := range map[string]func(r *room, n *spec.Node){
		"is down":                 func(r *room, _ *spec.Node) { r.up = false },
		"has 2 such GPUs free":    func(_ *room, n *spec.Node) { n.GPUs.Count = 3 },
		"has 0 such GPUs free":    func(_ *room, n *spec.Node) { n.GPUs.Model = "T4" },
		"has 7GiB of memory left": func(r *room, _ *spec.Node) { r.memory-- },
		"has 0B of memory left":   func(r *room, _ *spec.Node) { r.memory = -1 },
		"has 3 CPUs":              func(r *room, _ *spec.Node) { r.cpus = 3 },
		"has no storage a":        func(r *room, _ *spec.Node) { r.storages = r.storages[1:] },
		"has no storage b":        func(r *room, _ *spec.Node) { r.storages = r.storages[:1] },
	} {
		r, other := roomy(), n
		change(r, &other)
		assert.Equal(t, want, p.lacks(r, other))
	}
	n.GPUs.Count = 0
	assert.Nil(t, p.matching("pve1", n))
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
		p.mapped(&pci.Ledger{Mappings: []pci.MappingState{m}})
		assert.Equal(t, strings.TrimRight(want, "+-=*"), s.Nodes[1].Host, want)
		assert.Equal(t, "pve1", s.Nodes[0].Host)
	}
}
