package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

var authKinds = []string{spec.AuthDummy, spec.AuthNative, spec.AuthOIDC, spec.AuthLDAP, spec.AuthGitHub}

func (r *resolver) hubAuth(hub *decode.Hub, h *spec.Hub) {
	raw := hub.Auth
	if raw == nil {
		if !r.spec.IsLab() {
			r.Wrong(&hub.Auth, "nothing says who may log in to the hub", "write auth: native, or auth: with oidc, ldap or github and their keys")
			return
		}
		r.Warn(hub, "anyone who knows the hub's one password may log in: this is the lab, and the file has no auth", "write auth: dummy to confirm that, or auth: native")
		h.Auth = spec.HubAuth{Kind: spec.AuthDummy, AllowAll: true}
		return
	}
	kind, ok := r.authKind(raw)
	if !ok {
		return
	}
	h.Auth = spec.HubAuth{Kind: kind, AllowAll: or(raw.AllowAll, kind == spec.AuthDummy || kind == spec.AuthNative), Users: raw.Users, Admins: raw.Admins}
	r.userNames(raw.Users)
	r.userNames(raw.Admins)
	switch kind {
	case spec.AuthDummy:
		r.authDummy(hub, raw, &h.Auth)
	case spec.AuthNative:
		r.authNative(raw, &h.Auth)
	case spec.AuthOIDC:
		ok = r.authOIDC(raw, &h.Auth)
	case spec.AuthLDAP:
		ok = r.authLDAP(raw, &h.Auth)
	case spec.AuthGitHub:
		ok = r.authGitHub(raw, &h.Auth)
	}
	if ok {
		r.usersExist(raw, &h.Auth)
	}
}

// authKind is the kind that is set, or whose keys are.
func (r *resolver) authKind(raw *decode.HubAuth) (kind string, ok bool) {
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
		r.Wrong(raw, "auth does not say how people log in", "write kind: "+suggest.OneOf(authKinds))
		return "", false
	}
	return kind, ok
}

// userNames checks users' names for the hub: lower-case, and valid in URLs.
func (r *resolver) userNames(names []string) {
	for i, n := range names {
		if n != strings.ToLower(n) && matches(`^[A-Za-z0-9._@+-]+$`, n) {
			r.Wrong(&names[i], fmt.Sprintf("the hub knows users in lower case, so %q matches nobody", n), "write "+strings.ToLower(n))
		} else if !matches(`^[a-z0-9][a-z0-9._@+-]*$`, n) {
			r.Wrong(&names[i], fmt.Sprintf("%q cannot be a user", n), "write the login name in lower case")
		}
		if j := slices.Index(names, n); j < i {
			r.Wrong(&names[i], fmt.Sprintf("user %s is here twice", n), "keep one of them")
		}
	}
}

// usersExist refuses a hub that allows nobody: since JupyterHub 5 a login alone allows
// nothing, and some authenticators do not allow admins automatically.
func (r *resolver) usersExist(raw *decode.HubAuth, a *spec.HubAuth) {
	named := slices.Concat(a.Users, a.AllowedGroups, a.Organizations, a.LDAPGroups)
	switch {
	case !a.AllowAll && len(slices.Concat(named, a.AdminGroups)) == 0:
		r.Wrong(raw, "nobody may log in: no users, no groups, and not all", "write users: or groups of "+a.Kind+", or allowAll: true")
	case a.AllowAll && r.IsSet(&raw.AllowAll) && len(named) > 0:
		r.Warn(&raw.AllowAll, "allowAll lets everybody in, so the named users and groups add nothing", "remove allowAll, or the names")
	case a.AllowAll && len(a.Users) > 0:
		a.AllowAll = false // naming users allows only these
	}
	if a.Kind == spec.AuthNative && !a.OpenSignup && len(a.Admins) == 0 {
		r.Wrong(raw, "nobody can approve people who sign up: there is no admin", "write admins: [your-name], and sign up first")
	}
	if a.Kind == spec.AuthGitHub && a.AllowAll {
		r.Warn(&raw.AllowAll, "everybody with an account at GitHub may run code here", "write organizations: instead")
	}
}

func (r *resolver) authDummy(hub *decode.Hub, raw *decode.HubAuth, a *spec.HubAuth) {
	if raw.Dummy != nil {
		a.Password = raw.Dummy.Password
	}
	if !r.spec.IsLab() {
		at := any(&raw.Kind)
		if !r.IsSet(at) {
			at = &hub.Auth
		}
		r.Warn(at, "anyone who knows the one password may log in under any name", "write auth: native, or oidc, ldap or github, before other people use it")
	}
}

func (r *resolver) authNative(raw *decode.HubAuth, a *spec.HubAuth) {
	if raw.Native == nil {
		return
	}
	a.OpenSignup = raw.Native.OpenSignup
	if a.OpenSignup && !r.spec.IsLab() {
		r.Warn(&raw.Native.OpenSignup, "anyone who reaches the page may run code here", "remove openSignup: admins then approve people")
	}
}

// must reports missing keys that a way to log in requires.
func (r *resolver) must(kind string, keys ...needed) {
	for _, k := range keys {
		if !r.IsSet(k.at) {
			r.Wrong(k.at, fmt.Sprintf("%s has no %s", kind, k.name), k.cure)
		}
	}
}

type needed struct {
	at         any
	name, cure string
}

func (r *resolver) authOIDC(raw *decode.HubAuth, a *spec.HubAuth) bool {
	o := raw.OIDC
	if o == nil {
		r.Wrong(&raw.Kind, "oidc has no issuer, clientID and clientSecret", "write oidc: with these three below it")
		return false
	}
	a.Issuer, a.ClientID, a.ClientSecret = strings.TrimSuffix(o.Issuer, "/"), o.ClientID, o.ClientSecret
	a.AuthorizeURL, a.TokenURL, a.UserdataURL = o.AuthorizeURL, o.TokenURL, o.UserdataURL
	a.UsernameClaim, a.GroupsClaim = cmp.Or(o.UsernameClaim, "preferred_username"), o.GroupsClaim
	a.AllowedGroups, a.AdminGroups, a.Scopes, a.LoginService = o.AllowedGroups, o.AdminGroups, o.Scopes, o.Button
	a.CAFile = r.existing(&o.CA, o.CA, false)
	if a.GroupsClaim == "" && r.groupsAreNamed(o) {
		a.GroupsClaim = "groups"
	}
	r.must("oidc",
		needed{&o.Issuer, "issuer", "write issuer: and the provider's URL, below which .well-known/openid-configuration is"},
		needed{&o.ClientID, "clientID", "write clientID: and the name that the provider knows the hub by"},
		needed{&o.ClientSecret, "clientSecret", "write clientSecret: env:NAME or file:PATH"})
	for _, at := range []*string{&o.Issuer, &o.AuthorizeURL, &o.TokenURL, &o.UserdataURL} {
		r.isURL(at, "https", "http")
		if strings.HasPrefix(*at, "http://") && !r.spec.IsLab() {
			r.Warn(at, "logins would travel without TLS", "write https://")
		}
	}
	if strings.HasSuffix(a.Issuer, "/.well-known/openid-configuration") {
		r.Wrong(&o.Issuer, "this is the provider's document, and not the issuer", "write "+strings.TrimSuffix(a.Issuer, "/.well-known/openid-configuration"))
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
func (r *resolver) groupsAreNamed(o *decode.AuthOIDC) bool {
	if len(o.AllowedGroups)+len(o.AdminGroups) > 0 {
		return true
	}
	return slices.ContainsFunc(r.raw.Hub.Profiles, func(e decode.Entry[decode.HubProfile]) bool { return len(e.Value.Groups) > 0 }) ||
		slices.ContainsFunc(r.raw.Hub.Shared, func(e decode.Entry[decode.HubShare]) bool { return len(e.Value.Groups) > 0 })
}

func (r *resolver) authLDAP(raw *decode.HubAuth, a *spec.HubAuth) bool {
	l := raw.LDAP
	if l == nil {
		r.Wrong(&raw.Kind, "ldap has no server", "write ldap: with server and bindDN below it")
		return false
	}
	a.LDAPServer, a.LDAPBindDN, a.LDAPSearchBase, a.LDAPGroups = l.Server, l.BindDN, l.SearchBase, l.Groups
	a.LDAPLookupDN, a.LDAPSearchUser, a.LDAPSearchPass = l.LookupDN, l.SearchUser, l.SearchPassword
	a.LDAPUserAttr, a.CAFile = cmp.Or(l.UserAttribute, "uid"), r.existing(&l.CA, l.CA, false)
	r.must("ldap", needed{&l.Server, "server", "write server: ldaps://host"})
	r.isURL(&l.Server, "ldaps", "ldap")
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

func (r *resolver) authGitHub(raw *decode.HubAuth, a *spec.HubAuth) bool {
	g := raw.GitHub
	if g == nil {
		r.Wrong(&raw.Kind, "github has no clientID and clientSecret", "write github: with these two below it")
		return false
	}
	a.ClientID, a.ClientSecret, a.Organizations = g.ClientID, g.ClientSecret, g.Organizations
	r.must("github",
		needed{&g.ClientID, "clientID", "write clientID: of the OAuth app (Settings, Developer settings), whose callback is https://HOSTNAME/hub/oauth_callback"},
		needed{&g.ClientSecret, "clientSecret", "write clientSecret: env:NAME or file:PATH"})
	for i, o := range g.Organizations {
		if !matches(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(:[A-Za-z0-9._-]+)?$`, o) {
			r.Wrong(&g.Organizations[i], fmt.Sprintf("%q is not an organization", o), "write its name as in github.com/NAME, or NAME:team")
		}
	}
	return true
}
