package platform

import (
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
	"github.com/cps-gpu/homelab/kube/chart"
)

// GitOps is the part that points Fleet at the repository.
const GitOps = "gitops"

// gitOps points Fleet at the repository, if the repository has anything for Fleet.
type gitOps struct{ *spec.Fleet }

func (g gitOps) Info() addon.Info {
	i := addon.Info{
		Name: GitOps, Section: "fleet", On: g.Fleet != nil && g.Repo != "",
		NeverInFleet: "Fleet learns from it what to deploy",
	}
	if i.On {
		i.Stays = "the folder " + g.Path + " of " + g.Repo
	}
	return i
}

func (g gitOps) Make(s *addon.Site) (addon.Recipe, error) {
	paths := g.Extra
	if slices.ContainsFunc(s.Made, func(o addon.Recipe) bool { return o.Via == spec.ViaFleet }) {
		paths = append([]string{g.Path}, paths...)
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
	login, err := GitLogin(g.Fleet)
	login.Paths = paths
	if err != nil && !s.Unread {
		return p, err
	}
	objects, credentials, err := login.Objects()
	if err != nil && !s.Unread {
		return p, err
	}
	p.After = objects
	if credentials != nil {
		p.Secrets = []chart.Secret{*credentials}
	}
	return p, nil
}
