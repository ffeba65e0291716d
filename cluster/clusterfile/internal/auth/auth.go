// Package auth completes and checks hub.auth: how people log in to the hub.
package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

type section struct {
	*decode.Checker
	lab      bool // the hub is in the embedded lab
	platform *spec.Platform
}

// Complete completes and checks the hub's auth.
func Complete(c *decode.Checker, s *spec.Spec) {
	section{c, s.IsLab(), &s.Platform}.hub(s.Platform.Hub)
}

// byLogin makes the cluster's own login the hub's, unless the hub has another one.
func (r section) byLogin(h *spec.Hub) bool {
	a, l := &h.Auth, r.platform.Login
	if l == nil || a.Kind != "" || a.Dummy != nil || a.Native != nil || a.OIDC != nil || a.LDAP != nil || a.GitHub != nil {
		return false
	}
	UserNames(r.Checker, a.Users)
	UserNames(r.Checker, a.Admins)
	its := r.platform.Issuer()
	a.Kind = spec.AuthOIDC
	a.OIDC = &spec.OIDCAuth{
		Issuer: its.URL, ClientID: l.Client(spec.LoginHub).ClientID, AuthorizeURL: its.Authorize, TokenURL: its.Token, UserdataURL: its.Userinfo,
		UsernameClaim: its.NameClaim, GroupsClaim: its.GroupsClaim, AllowedGroups: l.AllowedGroups, AdminGroups: l.AdminGroups, Scopes: its.Scopes,
	}
	r.usersExist(a, "login.allowedGroups")
	return true
}

var kinds = []string{spec.AuthDummy, spec.AuthNative, spec.AuthOIDC, spec.AuthLDAP, spec.AuthGitHub}

func (r section) hub(h *spec.Hub) {
	a := &h.Auth
	if r.byLogin(h) {
		return
	}
	if !r.IsSet(a) {
		if !r.lab {
			r.Wrong(a, "nothing says who may log in to the hub", "write auth: native, or auth: with oidc, ldap or github and their keys")
			return
		}
		r.Warn(h, "anyone who knows the hub's one password may log in: this is the lab, and the file has no auth", "write auth: dummy to confirm that, or auth: native")
		*a = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: spec.On}
		return
	}
	kind, ok := r.kind(a)
	if !ok {
		return
	}
	a.Kind = kind
	UserNames(r.Checker, a.Users)
	UserNames(r.Checker, a.Admins)
	switch kind {
	case spec.AuthDummy:
		r.dummy(a)
	case spec.AuthNative:
		r.native(a)
	case spec.AuthOIDC:
		ok = r.oidc(h)
	case spec.AuthLDAP:
		ok = r.ldap(a)
	case spec.AuthGitHub:
		ok = r.github(a)
	}
	if ok {
		r.usersExist(a, "groups of "+a.Kind)
	}
}

// kind is the kind that is set, or whose keys are.
func (r section) kind(raw *spec.HubAuth) (kind string, ok bool) {
	blocks := []struct {
		kind string
		at   any
		said bool
	}{
		{spec.AuthDummy, &raw.Dummy, raw.Dummy != nil}, {spec.AuthNative, &raw.Native, raw.Native != nil}, {spec.AuthOIDC, &raw.OIDC, raw.OIDC != nil},
		{spec.AuthLDAP, &raw.LDAP, raw.LDAP != nil}, {spec.AuthGitHub, &raw.GitHub, raw.GitHub != nil},
	}
	if kind = raw.Kind; r.Refused(&raw.Kind) {
		return "", false
	}
	ok = true
	for _, b := range blocks {
		switch {
		case !b.said:
		case kind == "":
			kind = b.kind
		case kind != b.kind:
			r.Wrong(b.at, fmt.Sprintf("the hub's login is %s, and this is for %s", kind, b.kind), "keep one of them; the hub has one way to log in")
			ok = false
		}
	}
	if kind == "" {
		r.Wrong(raw, "auth does not say how people log in", "write kind: "+suggest.JoinOr(kinds))
		return "", false
	}
	return kind, ok
}

// UserNames checks users' names for the hub: lower-case, and valid in URLs.
func UserNames(c *decode.Checker, names []string) {
	for i, n := range names {
		if n != strings.ToLower(n) && decode.Matches(`^[A-Za-z0-9._@+-]+$`, n) {
			c.Wrong(&names[i], fmt.Sprintf("the hub knows users in lower case, so %q matches nobody", n), "write "+strings.ToLower(n))
		} else if !decode.Matches(`^[a-z0-9][a-z0-9._@+-]*$`, n) {
			c.Wrong(&names[i], fmt.Sprintf("%q cannot be a user", n), "write the login name in lower case")
		}
		if j := slices.Index(names, n); j < i {
			c.Wrong(&names[i], fmt.Sprintf("user %s is here twice", n), "keep one of them")
		}
	}
}

// usersExist refuses a hub that allows nobody: since JupyterHub 5 a login alone allows
// nothing, and some authenticators do not allow admins automatically.
func (r section) usersExist(a *spec.HubAuth, groups string) {
	named, admins := slices.Clone(a.Users), []string(nil)
	switch a.Kind {
	case spec.AuthOIDC:
		named, admins = append(named, a.OIDC.AllowedGroups...), a.OIDC.AdminGroups
	case spec.AuthLDAP:
		named = append(named, a.LDAP.Groups...)
	case spec.AuthGitHub:
		named = append(named, a.GitHub.Organizations...)
	}
	all := a.AllowAll.Or(a.Kind == spec.AuthDummy || a.Kind == spec.AuthNative)
	switch {
	case !all.IsOn() && len(named)+len(admins) == 0:
		r.Wrong(a, "nobody may log in: no users, no groups, and not all", "write users: or "+groups+", or allowAll: true")
	case all.IsOn() && r.IsSet(&a.AllowAll) && len(named) > 0:
		r.Warn(&a.AllowAll, "allowAll lets everybody in, so the named users and groups add nothing", "remove allowAll, or the names")
	case all.IsOn() && len(a.Users) > 0:
		all = spec.Off // naming users allows only these
	}
	a.AllowAll = all
	if a.Kind == spec.AuthNative && (a.Native == nil || !a.Native.OpenSignup) && len(a.Admins) == 0 {
		r.Wrong(a, "nobody can approve people who sign up: there is no admin", "write admins: [your-name], and sign up first")
	}
	if a.Kind == spec.AuthGitHub && all.IsOn() {
		r.Warn(&a.AllowAll, "everybody with an account at GitHub may run code here", "write organizations: instead")
	}
}

func (r section) dummy(a *spec.HubAuth) {
	if !r.lab {
		at := any(&a.Kind)
		if !r.IsSet(at) {
			at = a
		}
		r.Warn(at, "anyone who knows the one password may log in under any name", "write auth: native, or oidc, ldap or github, before other people use it")
	}
}

func (r section) native(a *spec.HubAuth) {
	if a.Native != nil && a.Native.OpenSignup && !r.lab {
		r.Warn(&a.Native.OpenSignup, "anyone who reaches the page may run code here", "remove openSignup: admins then approve people")
	}
}

// must reports missing keys that a way to log in requires.
func (r section) must(kind string, keys ...requirement) {
	for _, k := range keys {
		if !r.IsSet(k.at) {
			r.Wrong(k.at, fmt.Sprintf("%s has no %s", kind, k.name), k.cure)
		}
	}
}

type requirement struct {
	at         any
	name, cure string
}

func (r section) oidc(h *spec.Hub) bool {
	o := h.Auth.OIDC
	if o == nil {
		r.Wrong(&h.Auth.Kind, "oidc has no issuer, clientID and clientSecret", "write oidc: with these three below it")
		return false
	}
	o.CA = r.Existing(&o.CA, o.CA, false)
	if o.GroupsClaim == "" && groupsAreNamed(h) {
		o.GroupsClaim = "groups"
	}
	r.must("oidc",
		requirement{&o.Issuer, "issuer", "write issuer: and the provider's URL, below which .well-known/openid-configuration is"},
		requirement{&o.ClientID, "clientID", "write clientID: and the name that the provider knows the hub by"},
		requirement{&o.ClientSecret, "clientSecret", "write clientSecret: env:NAME or file:PATH"})
	for _, at := range []*string{&o.Issuer, &o.AuthorizeURL, &o.TokenURL, &o.UserdataURL} {
		r.IsURL(at, "https", "http")
		if strings.HasPrefix(*at, "http://") && !r.lab {
			r.Warn(at, "logins would travel without TLS", "write https://")
		}
	}
	o.Issuer = strings.TrimSuffix(o.Issuer, "/")
	if its, ok := strings.CutSuffix(o.Issuer, "/.well-known/openid-configuration"); ok {
		r.Wrong(&o.Issuer, "this is the provider's document, and not the issuer", "write "+its)
	}
	if urls := []string{o.AuthorizeURL, o.TokenURL, o.UserdataURL}; slices.Contains(urls, "") && strings.Join(urls, "") != "" {
		r.Wrong(o, "some of authorizeURL, tokenURL and userdataURL are set, and some are not", "write all three, or none to read them from the issuer")
	}
	if r.IsSet(&o.Scopes) && !slices.Contains(o.Scopes, "openid") {
		r.Wrong(&o.Scopes, "OpenID Connect needs the scope openid", "write scopes: [openid, profile, email]")
	}
	return true
}

// groupsAreNamed reports whether anything depends on the users' groups.
func groupsAreNamed(h *spec.Hub) bool {
	return len(h.Auth.OIDC.AllowedGroups)+len(h.Auth.OIDC.AdminGroups) > 0 ||
		slices.ContainsFunc(h.Profiles, func(p spec.HubProfile) bool { return len(p.Groups) > 0 }) ||
		slices.ContainsFunc(h.Shared, func(s spec.HubShare) bool { return len(s.Groups)+len(s.Writers) > 0 })
}

func (r section) ldap(a *spec.HubAuth) bool {
	l := a.LDAP
	if l == nil {
		r.Wrong(&a.Kind, "ldap has no server", "write ldap: with server and bindDN below it")
		return false
	}
	l.CA = r.Existing(&l.CA, l.CA, false)
	r.must("ldap", requirement{&l.Server, "server", "write server: ldaps://host"})
	r.IsURL(&l.Server, "ldaps", "ldap")
	if strings.HasPrefix(l.Server, "ldap://") {
		r.Warn(&l.Server, "logins fail if the directory does not offer StartTLS, without which the hub sends no password", "write ldaps:// if the directory has it")
	}
	for i, dn := range l.BindDN {
		if !strings.Contains(dn, "{username}") || !strings.Contains(dn, "=") {
			r.Wrong(&l.BindDN[i], fmt.Sprintf("%q is not a template of a user's name", dn), "write e.g. uid={username},ou=people,dc=lab,dc=example")
		}
	}
	switch {
	case !l.LookupDN && len(l.BindDN) == 0:
		r.Wrong(&l.BindDN, "ldap has no template of the name that a user logs in with", "write bindDN: [uid={username},ou=people,…], or lookupDN: true with searchBase")
	case l.LookupDN && l.SearchBase == "":
		r.Wrong(&l.SearchBase, "the file does not say where a user's name is looked up", "write searchBase: ou=people,dc=lab,dc=example")
	case r.IsSet(&l.SearchUser) != r.IsSet(&l.SearchPassword):
		r.Wrong(&l.SearchPassword, "the login that looks up names is incomplete", "write both searchUser and searchPassword, or neither to look up without one")
	case !l.LookupDN && l.SearchUser != "":
		r.Wrong(&l.SearchUser, "searchUser has no effect without lookupDN", "write lookupDN: true, or remove searchUser and searchPassword")
	}
	return true
}

func (r section) github(a *spec.HubAuth) bool {
	g := a.GitHub
	if g == nil {
		r.Wrong(&a.Kind, "github has no clientID and clientSecret", "write github: with these two below it")
		return false
	}
	r.must("github",
		requirement{&g.ClientID, "clientID", "write clientID: of the OAuth app (Settings, Developer settings), whose callback is https://HOSTNAME/hub/oauth_callback"},
		requirement{&g.ClientSecret, "clientSecret", "write clientSecret: env:NAME or file:PATH"})
	for i, o := range g.Organizations {
		if !decode.Matches(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(:[A-Za-z0-9._-]+)?$`, o) {
			r.Wrong(&g.Organizations[i], fmt.Sprintf("%q is not an organization", o), "write its name as in github.com/NAME, or NAME:team")
		}
	}
	return true
}
