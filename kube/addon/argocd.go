package addon

import (
	"fmt"
	"net/url"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/limit"
	"github.com/cps-gpu/homelab/kube/chart"
)

// ArgoCD is Argo CD. Its chart also has the definitions of its kinds.
type ArgoCD struct {
	*spec.ArgoCD
	Platform *spec.Platform // nil: nobody reaches its pages by a name
}

func (a ArgoCD) Info() Info {
	return Info{
		Name: "argocd", Section: "argocd", On: a.ArgoCD != nil && a.Standalone.IsOn(), NeverInFleet: "it is Argo CD itself",
		Namespace: argoNamespace,
		Chart: chart.Pin{
			Chart: "argo-cd", Repo: "https://argoproj.github.io/argo-helm",
			Version: "10.1.1", Kubernetes: ">=1.25.0-0", Compared: "2026-11-29",
			Source: "read: 10.1.1 of 2026-07-02, which has Argo CD 3.4.4; 10.10.2 with 3.5.4 is known and not read",
		},
	}
}

func (a ArgoCD) Make(s *Site) (Recipe, error) {
	config := values{
		"cm": values{"timeout.reconciliation": a.Polling.String(), "timeout.reconciliation.jitter": "0s"},
		"params": values{
			// What an Application waits for is in its status, where fleet:status reads it.
			"controller.resource.health.persist": "true",
			// A sync that waits for a hook takes no newer commit: without a limit, never.
			"controller.sync.timeout.seconds": "3600",
		},
	}
	if err := a.trust(config); err != nil && !s.Unread {
		return Recipe{}, err
	}
	if a.Platform != nil {
		if err := (ArgoCDPages{a.Platform}).signsIn(s, config); err != nil {
			return Recipe{}, err
		}
	}
	v := values{
		"configs": config,
		// The definitions stay, because deleting them would delete every Application.
		"crds": values{"keep": true},
		"dex":  values{"enabled": false}, "notifications": values{"enabled": false}, "applicationSet": values{"replicas": 0},
	}
	s.tolerate(v, []string{"global"})
	return Recipe{Part: chart.Part{Name: "argocd", Release: s.release(a.Info(), v)}, Fleet: true}, nil
}

// trust adds how the repository's server is recognized, which Argo CD has in ConfigMaps.
func (a ArgoCD) trust(config values) error {
	if a.KnownHosts != "" {
		text, err := limit.File(a.KnownHosts, limit.Named)
		if err != nil {
			return fmt.Errorf("argocd.knownHosts: %w", err)
		}
		config["ssh"] = values{"extraHosts": string(text)}
	}
	if a.CAFile != "" {
		text, err := limit.File(a.CAFile, limit.Named)
		if err != nil {
			return fmt.Errorf("argocd.ca: %w", err)
		}
		u, err := url.Parse(a.Repo)
		if err != nil {
			return fmt.Errorf("argocd.repo: %w", err)
		}
		config["tls"] = values{"certificates": values{u.Hostname(): string(text)}}
	}
	return nil
}
