// Package login checks a file's login: the sources that say who somebody is, and the groups that give rights.
package login

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

type section struct {
	*decode.Checker
	*spec.Login
	lab bool
}

// Check checks the login of a file.
func Check(c *decode.Checker, s *spec.Spec) {
	r := section{c, s.Platform.Login, s.IsLab()}
	r.clusterRoles(s)
	grafana, argo := s.Platform.GrafanaSignsIn(), s.Platform.ArgoCDSignsIn()
	nobody := len(r.ClusterRoles) > 0 && len(r.AllowedGroups)+len(r.AdminGroups) == 0
	switch {
	case !s.Platform.HubSignsIn() && !grafana && !argo && !s.Platform.RancherSignsIn() && s.Platform.ModelChat == nil && len(r.ClusterRoles) == 0:
		r.Warn(r.Login, "nothing uses the login", "write hub without auth, a hostname of monitoring or argocd, modelChat, or rancher with adminGroups")
	case grafana && nobody:
		r.Wrong(&r.AllowedGroups, "no group may see Grafana", "write login.allowedGroups or adminGroups")
	case argo && nobody:
		r.Wrong(&r.AllowedGroups, "no group may see Argo CD", "write login.allowedGroups or adminGroups")
	}
	if argo {
		r.argoGroups()
	}
	r.groups()
	if r.Provider != nil {
		r.provider(&s.Platform)
		return
	}
	r.sources()
	r.people()
	if g := r.GitHub; g != nil {
		r.must("github", key{&g.ClientID, "clientID"}, key{&g.ClientSecret, "clientSecret"})
	}
	if r.LDAP != nil {
		r.ldap()
	}
	if r.OIDC != nil {
		r.oidc()
	}
}

// sources are who says who somebody is. A name is one user of the hub, no matter which source says it.
func (r section) sources() {
	var have []string
	for name, is := range map[string]bool{"people": len(r.People) > 0, "github": r.GitHub != nil, "ldap": r.LDAP != nil, "oidc": r.OIDC != nil} {
		if is {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	switch {
	case len(have) == 0:
		r.Wrong(r.Login, "login has nobody who could sign in", "write people, github, ldap or oidc under it, or provider")
	case len(have) > 1:
		r.Warn(r.Login, fmt.Sprintf("who has a name in one of %s is the same user as who has it in another", suggest.JoinOr(have)), "use one source, or see to it that nobody can choose a name that another has")
	}
}

func (r section) people() {
	known := map[string]string{}
	for i := range r.People {
		p := &r.People[i]
		if !decode.Matches(`^[a-z0-9][a-z0-9._@+-]*$`, p.Name) {
			r.Wrong(p, fmt.Sprintf("%q cannot be a user of the hub", p.Name), "write a name in lower case")
		}
		if !r.IsSet(&p.Hash) {
			r.Wrong(&p.Hash, p.Name+" has no hash of a password", "write hash: env:NAME or file:PATH, with what htpasswd -nBC 12 "+p.Name+" prints after the colon")
		}
		switch email := strings.ToLower(p.Email); {
		case !decode.Matches(`^[^@\s]+@[^@\s]+$`, p.Email):
			r.Wrong(&p.Email, fmt.Sprintf("%q is not an address of %s", p.Email, p.Name), "write email: "+p.Name+"@lab.example; it is typed to sign in, and gets no mail")
		case known[email] != "":
			r.Wrong(&p.Email, fmt.Sprintf("%s signs in with this address too", known[email]), "write another one for "+p.Name)
		default:
			known[email] = p.Name
		}
	}
}

// groups checks that groups give rights, and that people of the file have groups that the file knows.
func (r section) groups() {
	if len(r.AllowedGroups)+len(r.AdminGroups)+len(r.ClusterRoles) == 0 {
		r.Wrong(r.Login, "no group has rights, so nobody may do anything", "write allowedGroups, adminGroups or clusterRoles")
	}
	named := [][]string{r.AllowedGroups, r.AdminGroups}
	for i := range r.People {
		named = append(named, r.People[i].Groups)
	}
	for _, list := range named {
		for i, g := range list {
			// They are written in an expression in Grafana's INI file.
			if g == "" || strings.TrimSpace(g) != g || strings.ContainsAny(g, "'\"\\`#;$%{}\n") {
				r.Wrong(&list[i], fmt.Sprintf("%q cannot be a group", g), "write its name without quotes, backslashes, #, ;, $, %, braces, and spaces around it")
			}
		}
	}
	if r.GitHub != nil || r.LDAP != nil || r.OIDC != nil || r.Provider != nil {
		return // they know other groups
	}
	for _, list := range named[:2] {
		for i, g := range list {
			if !slices.ContainsFunc(r.People, func(p spec.Person) bool { return slices.Contains(p.Groups, g) }) {
				r.Warn(&list[i], fmt.Sprintf("nobody is in the group %s", g), "write it among the groups of a person, or remove it")
			}
		}
	}
}

// argoGroups refuses groups that Argo CD takes for its own accounts and roles (assets/builtin-policy.csv).
func (r section) argoGroups() {
	for i, g := range r.AllowedGroups {
		if (g == "admin" || strings.HasPrefix(g, "role:")) && !slices.Contains(r.AdminGroups, g) {
			r.Wrong(&r.AllowedGroups[i], fmt.Sprintf("Argo CD takes the group %s for its own, and would give it the rights of that", g), "write it among adminGroups, use another group, or remove argocd.hostname")
		}
	}
}

// clusterRoles checks rights for kubectl. The API server asks the issuer by its public name.
func (r section) clusterRoles(s *spec.Spec) {
	if len(r.ClusterRoles) == 0 {
		return
	}
	at := &r.ClusterRoles
	for _, group := range slices.Sorted(maps.Keys(r.ClusterRoles)) {
		if role := r.ClusterRoles[group]; strings.TrimSpace(group) == "" || !decode.Matches(`^[A-Za-z0-9:._-]+$`, role) {
			r.Wrong(r.MemberAt(at, group), fmt.Sprintf("%q cannot be a ClusterRole", role), "write a group and a ClusterRole, e.g. {staff: cluster-admin}")
		}
	}
	if t := s.Platform.TLS; r.Provider == nil && (t == nil || t.Source == spec.TLSSelfSigned) {
		r.Wrong(at, "the API server would not trust the certificate of Dex, whose authority is made in the cluster, after the API server has started",
			"write tls: {source: acme, email: …}, or tls: {source: ca, …} with an authority of your own, or remove clusterRoles")
	}
	if o := r.Provider; o != nil && o.CA != "" && s.Sealed {
		r.Wrong(&o.CA, "the API server of Talos does not get this authority", "use a provider with a public certificate, or remove clusterRoles")
	}
	if t := s.Platform.TLS; r.Provider == nil && t != nil && t.Source != spec.TLSSelfSigned && t.CACert != "" && s.Sealed {
		r.Wrong(&t.CACert, "the API server of Talos does not get this authority, and so would not trust the certificate of Dex", "write tls: {source: acme, email: …}, or remove login.clusterRoles")
	}
	if o := r.Provider; o != nil && strings.HasPrefix(o.Issuer, "http://") {
		r.Wrong(&o.Issuer, "with clusterRoles the API server would not start: it takes the tokens of an issuer with https only", "write https://, or remove clusterRoles")
	}
	for _, key := range []string{"kube-apiserver-arg", "kube-apiserver-arg+"} {
		if strings.Contains(fmt.Sprint(s.K3s.ServerConfig[key]), "oidc-") || strings.Contains(fmt.Sprint(s.K3s.ServerConfig[key]), "authentication-config") {
			r.Wrong(at, "k3s.server."+key+" already says whose tokens the API server takes", "keep one of them")
		}
	}
}

func (r section) ldap() {
	l := r.LDAP
	r.must("ldap", key{&l.Server, "server"}, key{&l.SearchBase, "searchBase"})
	l.CA = r.Existing(&l.CA, l.CA, false)
	r.IsURL(&l.Server, "ldaps", "ldap")
	if r.IsSet(&l.SearchUser) != r.IsSet(&l.SearchPassword) {
		r.Wrong(&l.SearchPassword, "the account that searches is incomplete", "write both searchUser and searchPassword, or neither to search without one")
	}
}

func (r section) oidc() {
	o := r.OIDC
	r.must("oidc", key{&o.Issuer, "issuer"}, key{&o.ClientID, "clientID"}, key{&o.ClientSecret, "clientSecret"})
	o.CA = r.Existing(&o.CA, o.CA, false)
	r.issuer(&o.Issuer)
}

type key struct {
	at   any
	name string
}

// must reports keys of a source that are missing.
func (r section) must(source string, keys ...key) {
	for _, k := range keys {
		if !r.IsSet(k.at) {
			r.Wrong(k.at, fmt.Sprintf("login.%s has no %s", source, k.name), "write "+k.name+": under it; docs/login.md says where it comes from")
		}
	}
}
