package helm_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

func Example() {
	source := helm.Source{Folder: "testdata/charts", Offline: true}
	web := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0",
		Values: map[string]any{"replicas": 12, "colour": "green"}}

	err := source.Check(context.Background(), web, helm.Capabilities{Kubernetes: "v1.36.5+k3s1"})
	var wrong *helm.ValuesError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// colour: is not a key that the chart knows
	// replicas: must be 9 or less
}
