package harvestersim_test

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/harvestersim"
)

// A Harvester cluster with one node and one GPU, for any client of Kubernetes.
func Example() {
	ctx := context.Background()
	sim, err := harvestersim.New(ctx, harvestersim.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sim.Close()
	card := harvestersim.PCI{PCI: guest.PCI{Host: "0000:41:00.0", Vendor: 0x10de, Device: 0x20b5, Class: 0x030200},
		Resource: "nvidia.com/GA100_A100_PCIE_80GB", Description: "3D controller: NVIDIA Corporation GA100", IOMMUGroup: "41"}
	if err := sim.AddNode(ctx, harvestersim.Node{Name: "node1", CPUs: 64, Memory: 512 << 30, PCI: []harvestersim.PCI{card}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sim.AddNetwork(ctx, "machines", "lab"))
	fmt.Println(sim.Plane().Names("pcidevices.devices.harvesterhci.io"))
	// Output:
	// <nil>
	// [/node1-000041000]
}
