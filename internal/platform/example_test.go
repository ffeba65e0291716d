package platform_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/internal/platform"
)

// How many servers of each profile of the example run at once, when nothing else does.
// Printed as a whole, the report is a table of profiles and pools.
func ExampleFit() {
	file, err := clusterfile.Load("../../examples/eight-a100/cluster.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range platform.Fit(file).Rows {
		fmt.Println(row.Profile, row.Total)
	}
	// Output:
	// cpu 124
	// gpu-1 8
	// gpu-2 4
}
