package placement_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// Two nodes ask for two GPUs each, on a host with four cards.
func ExampleAllot() {
	ledger := &pci.Ledger{}
	for bus := range uint8(4) {
		device := pci.Function{Address: proxmox.PCIAddress{Bus: bus + 1}, Name: "GA100 [A100]", IOMMUGroup: 20 + int(bus)}
		ledger.Cards = append(ledger.Cards, pci.Card{Host: "pve1", GPU: pci.GPU{Function: device, Model: "A100"}})
	}
	want := &spec.Spec{Name: "lab", Nodes: []spec.Node{
		{Name: "wk1", Host: "pve1", GPUs: spec.GPURequest{Count: 2}},
		{Name: "wk2", Host: "pve1", GPUs: spec.GPURequest{Count: 2}},
	}}
	got := placement.Allot(want, "pve1", ledger)
	for _, n := range want.Nodes {
		fmt.Println(n.Name, got.Shares[n.Name].Why)
	}
	// Output:
	// wk1 0000:01:00, 0000:02:00: A100, neighbours on the bus, IOMMU groups 20, 21 of their own
	// wk2 0000:03:00, 0000:04:00: A100, neighbours on the bus, IOMMU groups 22, 23 of their own
}
