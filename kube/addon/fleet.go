package addon

import (
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Fleet is Fleet without Rancher, which brings its own. Its controllers register their own
// cluster as fleet-local/local and start an agent for it.
type Fleet struct {
	*spec.Fleet
	Rancher bool // there is Rancher
}

func (f Fleet) Info() Info {
	return Info{
		Name: "fleet", Section: "fleet", On: f.Fleet != nil && !f.Rancher, NeverInFleet: "it is Fleet itself",
		Namespace: "cattle-fleet-system",
		Chart: chart.Pin{
			Chart: "fleet", Repo: "https://rancher.github.io/fleet-helm-charts",
			Version: "0.16.2", Kubernetes: ">=1.34.0-0 <1.37.0-0", Compared: "2026-11-20",
			Source: "pinned: Rancher 2.15.2's release notes, autumn 2026; read: 0.16.1 of 2026-08-19, annotation catalog.cattle.io/kube-version",
			// Annotation catalog.cattle.io/kube-version of charts/fleet at v0.16.1, v0.15.5, v0.14.9, v0.13.14
			// and v0.12.18. Read 2026-11-22.
			Lines: []chart.Line{
				{Minor: "0.16", Kubernetes: ">=1.34.0-0 <1.37.0-0"},
				{Minor: "0.15", Kubernetes: ">=1.33.0-0 <1.36.0-0"},
				{Minor: "0.14", Kubernetes: ">=1.32.0-0 <1.35.0-0"},
				{Minor: "0.13", Kubernetes: ">=1.28.0-0 <1.34.0-0"},
				{Minor: "0.12", Kubernetes: ">=1.28.0-0 <1.33.0-0"},
			},
		},
	}
}

func (f Fleet) Make(s *Site) (Recipe, error) {
	v := values{}
	s.tolerate(v, nil) // controllers and Git jobs
	part := chart.Part{Name: "fleet", Needs: []string{"fleet-crd"}, Release: s.release(f.Info(), v)}
	return Recipe{Part: part, Fleet: true, Replaces: []string{"rancher"}}, nil
}

// FleetCRD has Fleet's definitions of kinds, which are a chart of their own.
type FleetCRD struct{ Fleet }

func (f FleetCRD) Info() Info {
	i := f.Fleet.Info()
	i.Name, i.Chart.Chart, i.Chart.Source = "fleet-crd", "fleet-crd", "as fleet, whose version it must have"
	return i
}

func (f FleetCRD) Make(s *Site) (Recipe, error) {
	// The definitions stay, because deleting them would delete every bundle and what it deployed.
	part := chart.Part{Name: "fleet-crd", Release: s.release(f.Info(), nil), Keep: true}
	return Recipe{Part: part, Replaces: []string{"rancher"}}, nil
}
