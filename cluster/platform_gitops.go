package cluster

import (
	"slices"

	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/chart"
)

// fleet is GitOps: Fleet itself, where Rancher does not bring it, and the repository
// that it reads.
func (r *recipe) fleet(p *Platform) {
	if p.Fleet == nil {
		return
	}
	if p.Rancher == nil {
		c := p.Charts
		parts, err := fleet.Standalone(fleet.InstallOptions{Version: c.Versions["fleet"], Values: c.Values["fleet"], Taints: r.spec.taints()})
		if err != nil {
			r.errs = append(r.errs, err)
		}
		for _, part := range parts {
			r.add(part, nil, func(x *piece) { x.base, x.replaces = true, []string{"rancher"} })
		}
	}
}

// gitops points Fleet at the repository, if there is something in it for Fleet.
func (r *recipe) gitops(p *Platform) {
	if p.Fleet == nil || p.Fleet.Repo == "" {
		return
	}
	paths := p.Fleet.Extra
	if slices.ContainsFunc(r.pieces, func(x piece) bool { return x.via == ViaFleet }) {
		paths = append([]string{p.Fleet.Path}, paths...)
	}
	if len(paths) == 0 { // Fleet calls a path without anything in it an error
		return
	}
	bringer := "fleet"
	if p.Rancher != nil {
		bringer = "rancher"
	}
	login, err := p.Fleet.login()
	login.Paths = paths
	if err != nil && r.secrets {
		r.errs = append(r.errs, err)
		return
	}
	objects, credentials, err := login.Objects()
	if err != nil && r.secrets {
		r.errs = append(r.errs, err)
		return
	}
	part := chart.Part{Name: gitops, Needs: []string{bringer}, After: objects}
	if credentials != nil {
		part.Secrets = []chart.Secret{*credentials}
	}
	r.add(part, nil, func(x *piece) { x.base, x.via = true, ViaDirect })
}
