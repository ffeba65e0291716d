package mig_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/mig"
)

// Which instances fit on a card, and where they go.
func ExampleCheckFit() {
	a100, _ := nvidia.Lookup(nvidia.PCIID{Vendor: nvidia.Vendor, Device: 0x20f1})
	fmt.Println(mig.CheckFit(a100, map[string]int{"3g.20gb": 2}))
	fmt.Println(mig.CheckFit(a100, map[string]int{"3g.20gb": 2, "1g.5gb": 1}))
	chip, _ := mig.ChipOf(a100)
	fmt.Println(chip.Place(map[string]int{"4g.20gb": 1, "1g.5gb": 3}))
	// Output:
	// <nil>
	// A100 40GB: 3g.20gb + 3g.20gb + 1g.5gb take 9 slices of memory and it has 8: remove an instance, or write a smaller one
	// [{4g.20gb 0} {1g.5gb 6} {1g.5gb 5} {1g.5gb 4}] <nil>
}
