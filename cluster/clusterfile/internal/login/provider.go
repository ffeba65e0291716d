package login

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

// provider checks a provider that exists, and that nothing else of the section is for Dex.
func (r section) provider(p *spec.Platform) {
	o := r.Provider
	for name, at := range map[string]any{"hostname": &r.Hostname, "people": &r.People, "github": &r.GitHub, "ldap": &r.LDAP, "oidc": &r.OIDC} {
		if r.IsSet(at) {
			r.Wrong(at, name+" is of Dex, which does not come along with a provider", "remove it, or provider")
		}
	}
	r.must("provider", key{&o.Issuer, "issuer"})
	o.CA = r.Existing(&o.CA, o.CA, false)
	r.issuer(&o.Issuer)
	if !slices.Contains(o.Scopes, "openid") {
		r.Wrong(&o.Scopes, "OpenID Connect needs the scope openid", "write scopes: [openid, profile, email]")
	}
	for _, at := range []*string{&o.GroupsClaim, &o.NameClaim} {
		// It is a word of Grafana's expressions, and not all programs look below a claim.
		if !decode.Matches(`^[A-Za-z_][A-Za-z0-9_]*$`, *at) {
			r.Wrong(at, fmt.Sprintf("%q is not a claim that all programs can read", *at), "have the provider write it into a claim of letters, digits and _, such as groups")
		}
	}
	if o.NameClaim == "sub" {
		r.Warn(&o.NameClaim, "people are named by a number in the hub", "write e.g. preferred_username")
	}
	r.clients(p)
}

// clients checks that each program that people sign in to has a client.
func (r section) clients(p *spec.Platform) {
	o := r.Provider
	uses := map[string]bool{
		spec.LoginHub: p.HubSignsIn(), spec.LoginGrafana: p.GrafanaSignsIn(), spec.LoginRancher: p.RancherSignsIn(), spec.LoginChat: p.ModelChat != nil,
		spec.LoginArgoCD: p.ArgoCDSignsIn(), spec.LoginKubectl: len(r.ClusterRoles) > 0,
	}
	for i := range o.Clients {
		c := &o.Clients[i]
		switch used, known := uses[c.Name]; {
		case !known:
			r.Wrong(c, c.Name+" is not a program of the login", "write "+suggest.JoinOr([]string{spec.LoginHub, spec.LoginGrafana, spec.LoginRancher, spec.LoginArgoCD, spec.LoginChat, spec.LoginKubectl}))
			continue
		case !used:
			r.Warn(c, "nobody signs in to "+c.Name, "remove it")
		}
		if !r.IsSet(&c.ClientID) {
			r.Wrong(c, c.Name+" has no clientID", "write clientID: and the name that the provider knows it by")
		}
		switch hidden := r.IsSet(&c.ClientSecret); {
		case c.Name == spec.LoginKubectl && hidden:
			r.Wrong(&c.ClientSecret, "everyone with kubectl would have this secret", "make a public client at the provider, with PKCE, and remove clientSecret")
		case c.Name != spec.LoginKubectl && !hidden:
			r.Wrong(c, c.Name+" has no clientSecret", "write clientSecret: env:NAME or file:PATH")
		}
	}
	var alone []string
	for _, name := range []string{spec.LoginHub, spec.LoginGrafana, spec.LoginRancher, spec.LoginChat, spec.LoginArgoCD, spec.LoginKubectl} {
		if uses[name] && !slices.ContainsFunc(o.Clients, func(c spec.LoginClient) bool { return c.Name == name }) {
			alone = append(alone, name)
		}
	}
	if slices.Contains(alone, spec.LoginKubectl) {
		r.Wrong(&o.Clients, "kubectl has no client: everyone with kubectl would have the secret of the others", "write clients: {kubectl: {clientID: …}}, a public client with PKCE, or remove clusterRoles")
		alone = alone[:len(alone)-1]
	}
	switch {
	case r.IsSet(&o.ClientID) != r.IsSet(&o.ClientSecret):
		r.Wrong(&o.ClientSecret, "the client of the programs is incomplete", "write both clientID and clientSecret")
	case !r.IsSet(&o.ClientID) && len(alone) > 0:
		r.Wrong(&o.ClientID, "no client is for "+strings.Join(alone, ", "), "write clientID and clientSecret, or each of them under clients")
	}
}

// issuer checks the address of a provider.
func (r section) issuer(at *string) {
	r.IsURL(at, "https", "http")
	if strings.HasPrefix(*at, "http://") && !r.lab {
		r.Warn(at, "sign-ins would travel without TLS", "write https://")
	}
	if its, ok := strings.CutSuffix(*at, "/.well-known/openid-configuration"); ok {
		r.Wrong(at, "this is the provider's document, and not the issuer", "write "+its)
	}
}
