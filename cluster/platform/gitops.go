package platform

import (
	"slices"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube/chart"
)

// fleet adds Fleet itself, unless Rancher includes it, and the repository that it reads.
func (r *recipe) fleet(p *spec.Platform) {
	if p.Fleet == nil {
		return
	}
	if p.Rancher == nil {
		c := p.Charts
		parts, err := fleet.Standalone(fleet.InstallOptions{Version: c.Versions["fleet"], Values: c.Values["fleet"], Taints: Taints(r.spec)})
		if err != nil {
			r.errs = append(r.errs, err)
		}
		for _, part := range parts {
			r.add(part, nil, func(x *Piece) { x.Base, x.Replaces = true, []string{"rancher"} })
		}
	}
}

// gitops points Fleet at the repository, if the repository has anything for Fleet.
func (r *recipe) gitops(p *spec.Platform) {
	if p.Fleet == nil || p.Fleet.Repo == "" {
		return
	}
	paths := p.Fleet.Extra
	if slices.ContainsFunc(r.pieces, func(x Piece) bool { return x.Via == spec.ViaFleet }) {
		paths = append([]string{p.Fleet.Path}, paths...)
	}
	if len(paths) == 0 { // an empty path is an error for Fleet
		return
	}
	bringer := "fleet"
	if p.Rancher != nil {
		bringer = "rancher"
	}
	login, err := GitLogin(p.Fleet)
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
	part := chart.Part{Name: GitOps, Needs: []string{bringer}, After: objects}
	if credentials != nil {
		part.Secrets = []chart.Secret{*credentials}
	}
	r.add(part, nil, func(x *Piece) { x.Base, x.Via = true, spec.ViaDirect })
}
