package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// A node that has more cards than it asks for keeps those that nobody else has a claim on,
// as long as they are enough.
func TestCardsThatANodeKeeps(t *testing.T) {
	row := rowOf(4)
	buses := func(gpus []pci.GPU) (out []int) {
		for _, g := range gpus {
			out = append(out, int(g.Address.Bus))
		}
		return out
	}
	kept := []pci.GPU{row[0].GPU, row[1].GPU, row[3].GPU}
	for _, tt := range []struct {
		count   int
		claimed []int // cards of others
		want    []int
	}{
		{2, nil, []int{1, 2}}, {1, nil, []int{1}}, {3, nil, []int{1, 2, 4}}, {1, []int{0}, []int{2}}, {1, []int{0, 1}, []int{1, 2, 4}}, {2, []int{0}, []int{1, 2, 4}}, {1, []int{2}, []int{1}},
	} {
		b := &book{ledger: &pci.Ledger{Cards: row}, strangers: map[proxmox.PCIAddress]foreignClaim{}}
		for _, i := range tt.claimed {
			b.strangers[row[i].Address.Whole()] = foreignClaim{who: "VM 100"}
		}
		assert.Equal(t, tt.want, buses(b.fewer(spec.Node{GPUs: spec.GPURequest{Count: tt.count}}, kept)), "%+v", tt)
	}
}

// A node that is to have fewer keeps the group that it has: single cards are of more use to others.
func TestGroupsThatANodeKeeps(t *testing.T) {
	kept, row := grouped(1, 7, 7, 2), rowOf(4)
	for i := range row {
		row[i].GPU = kept[i]
	}
	b := &book{ledger: &pci.Ledger{Cards: row}}
	assert.Equal(t, kept[1:3], b.fewer(spec.Node{GPUs: spec.GPURequest{Count: 2}}, kept))
	assert.Equal(t, kept[:3], b.fewer(spec.Node{GPUs: spec.GPURequest{Count: 3}}, kept))
	assert.Equal(t, kept[:1], b.fewer(spec.Node{GPUs: spec.GPURequest{Count: 1}}, kept))
}

// A VM of somebody else becomes a node's machine where the file adopts it, on its host.
func TestWhoseMachineAVMBecomes(t *testing.T) {
	b := &book{host: "pve1", spec: &spec.Spec{Name: "lab"}, nodes: map[string]spec.Node{"wk1": {Name: "wk1", Adopt: true}, "wk2": {Name: "wk2"}}}
	for want, cl := range map[string]pci.Claim{
		"wk1": {Name: "wk1", Host: "pve1"},
		"":    {Name: "wk1", Host: "pve2"},
	} {
		assert.Equal(t, want, b.adoptingNode(cl))
	}
	assert.Empty(t, b.adoptingNode(pci.Claim{Name: "wk2", Host: "pve1"}), "not adopted")
	assert.Empty(t, b.adoptingNode(pci.Claim{Name: "web", Host: "pve1"}), "not of the file")
}
