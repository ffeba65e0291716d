package fleet_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/chart"
)

func ExampleRender() {
	bundles, err := fleet.BundlesOfAll(
		chart.Part{Name: "nfs", Release: &chart.Release{
			Name: "csi-driver-nfs", Namespace: "kube-system",
			Chart: "csi-driver-nfs", Version: "4.13.4", Repo: "https://charts.example.com/nfs",
		}, Keep: true},
		chart.Part{Name: "wiki", Needs: []string{"nfs"}, Release: &chart.Release{
			Name: "wiki", Namespace: "wiki",
			Chart: "wiki", Version: "2.2.0", Repo: "https://charts.example.com/wiki",
			Values: map[string]any{"replicas": 2},
		}},
	)
	if err != nil {
		panic(err)
	}
	folder, err := fleet.Render(bundles, fleet.Options{Cluster: "home"})
	if err != nil {
		panic(err)
	}
	for _, name := range folder.Names() {
		fmt.Println(name)
	}
	fmt.Printf("\n%s", folder["wiki/fleet.yaml"])
	// Output:
	// .homelab-files
	// README.md
	// nfs/fleet.yaml
	// wiki/fleet.yaml
	// wiki/values.yaml
	//
	// # Chart wiki as release wiki in namespace wiki. Generated from cluster.yaml: change it there; README.md says how.
	// name: wiki
	// labels:
	//   homelab.cps-gpu.github.com/part: wiki
	// defaultNamespace: wiki
	// helm:
	//   repo: https://charts.example.com/wiki
	//   chart: wiki
	//   version: 2.2.0
	//   releaseName: wiki
	//   valuesFiles:
	//   - values.yaml
	// # Drift in its dependencies (Modified) does not block it.
	// dependsOn:
	//   - name: nfs
	//     acceptedStates: [Ready, Modified]
}
