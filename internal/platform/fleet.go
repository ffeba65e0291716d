package platform

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// GitOps is the part that points Fleet, Flux or Argo CD at the repository.
const GitOps = "gitops"

// gitOps points the tool at the repository, if the repository has anything for it.
type gitOps struct{ *spec.Platform }

func (g gitOps) Info() addon.Info {
	f, via := g.GitOps()
	i := addon.Info{
		Name: GitOps, Section: via, On: f != nil && f.Repo != "",
		NeverInFleet: "the tool learns from it what to deploy",
	}
	if i.On {
		i.Stays = "the folder " + f.Path + " of " + f.Repo
	}
	return i
}

func (g gitOps) Make(s *addon.Site) (addon.Recipe, error) {
	f, via := g.GitOps()
	paths := f.Extra
	if slices.ContainsFunc(s.Made, func(o addon.Recipe) bool { return o.InGit() }) {
		paths = append([]string{f.Path}, paths...)
	}
	if len(paths) == 0 { // an empty path is an error for Fleet
		return addon.Recipe{}, nil
	}
	p := addon.Recipe{Part: chart.Part{Name: GitOps}}
	for _, o := range s.Made {
		if o.Fleet {
			p.Needs = append(p.Needs, o.Name)
		}
	}
	login, err := GitLogin(g.Platform)
	login.Paths = paths
	if err != nil && !s.Unread {
		return p, err
	}
	objects, credentials, err := login.Objects()
	if err != nil && !s.Unread {
		return p, err
	}
	p.After = objects
	if via == spec.ViaFlux {
		p.Before = []runtime.Object{fleet.FluxHome()}
	}
	if credentials != nil {
		p.Secrets = []chart.Secret{*credentials}
	}
	if key := login.DecryptionKey(); key != nil {
		p.Secrets = append(p.Secrets, *key)
	}
	return p, nil
}
