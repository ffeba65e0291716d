package dra_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/sim/dra"
	"github.com/cps-gpu/homelab/sim/guest"
)

// What the driver publishes of a node with two GPUs, one of which is divided.
func Example() {
	slice := dra.Slice("gpu1", []guest.GPU{{UUID: "GPU-a", Model: "NVIDIA A100-PCIE-40GB"}, {UUID: "GPU-b", Index: 1, MIG: true}})
	for _, d := range slice.Devices {
		fmt.Println(slice.Pool.Name, d.Name, *d.Attributes["uuid"].StringValue)
	}
	// Output: gpu1 gpu-0 GPU-a
}
