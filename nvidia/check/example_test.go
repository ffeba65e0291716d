package check_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// A card in a slot of eight lanes works, with half of what it could transfer.
func ExampleFacts() {
	seen := nvidia.DriverState{SMI: nvidia.SMI{GPUs: []nvidia.SMIGPU{{
		Name: "NVIDIA GeForce RTX 4090", Celsius: 41, Link: nvidia.PCIeLink{Generation: 1, MaxGeneration: 4, Width: 8, MaxWidth: 16},
	}}}}
	for _, c := range check.Facts("gpu1", seen) {
		fmt.Println(c.Subject(), c.Name, c.Verdict, "-", c.Detail)
	}
	// Output:
	// gpu1 GPU 0 pcie warning - x8, and the card can use x16: another slot, a riser or a bad contact
	// gpu1 GPU 0 ecc passed - off, or the card has none
	// gpu1 GPU 0 clocks passed - 41 °C
	// gpu1 xid passed - none in the kernel's log
}
