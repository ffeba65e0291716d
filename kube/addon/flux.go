package addon

import (
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
)

// Flux is Flux's controllers that homelab needs: of sources, of kustomizations and of Helm releases.
// Its chart also has the definitions of their kinds.
type Flux struct{ *spec.Fleet }

func (f Flux) Info() Info {
	return Info{
		Name: "flux", Section: "flux", On: f.Fleet != nil && f.Standalone.IsOn(), NeverInFleet: "it is Flux itself",
		Namespace: "flux-system",
		Chart: chart.Pin{
			Chart: "flux2", Repo: "https://fluxcd-community.github.io/helm-charts",
			Version: "2.18.3", Kubernetes: ">=1.33.0-0", Compared: "2026-11-29",
			Source: "read: 2.18.3 of 2026-04-15, which has Flux 2.8.5, whose flux check --pre wants this Kubernetes (cmd/flux/check.go)",
		},
	}
}

func (f Flux) Make(s *Site) (Recipe, error) {
	// The definitions stay, because deleting them would delete every release and what it deployed.
	v := values{"crds": values{"annotations": values{"helm.sh/resource-policy": "keep"}}}
	for _, name := range []string{"imageAutomationController", "imageReflectionController", "notificationController"} {
		v[name] = values{"create": false}
	}
	// A commit ends the wait for what the one before it made; else a corrected one waits until that is over.
	for _, name := range []string{"kustomizeController", "helmController"} {
		v[name] = values{"container": values{"additionalArgs": []any{"--feature-gates=CancelHealthCheckOnNewRevision=true"}}}
	}
	s.tolerate(v, []string{"sourceController"}, []string{"kustomizeController"}, []string{"helmController"}, []string{"cli"})
	return Recipe{Part: chart.Part{Name: "flux", Release: s.release(f.Info(), v)}, Fleet: true}, nil
}
