package jupyterhub

import (
	"net/url"
	"strconv"

	"github.com/cps-gpu/homelab/secret"
)

// Kinds of Auth.
const (
	Dummy  = "dummy"
	Native = "native"
	OIDC   = "oidc"
	LDAP   = "ldap"
	GitHub = "github"
)

// Auth says who may log in, in one place. It renders settings that belong together: JupyterHub
// 5 allows nobody by default, and oauthenticator 17 refuses to start with groups unless it may
// manage them.
type Auth struct {
	Kind     string
	AllowAll bool     // everyone who can log in
	Users    []string // these may log in
	Admins   []string // these too, and they administer the hub

	Password   secret.Value // Dummy: one for all users, 8 characters or more; zero: generated
	OpenSignup bool         // Native: new users may log in without an admin's approval

	ClientID     string // OIDC, GitHub
	ClientSecret secret.Value

	// OIDC. The three addresses are what [Discover] returns for an issuer.
	Endpoints     Endpoints
	UsernameClaim string   // default preferred_username
	GroupsClaim   string   // dots select nested keys, e.g. realm_access.roles; empty: no groups
	AllowedGroups []string // members may log in
	AdminGroups   []string // members administer the hub
	Scopes        []string // default openid, profile, email
	LoginService  string   // text of the button

	Organizations []string // GitHub: org, or org:team; members may log in

	Directory Directory // LDAP

	CA []byte // PEM of the authority that signed the provider's certificate; empty: the public ones and [Hub.CA]
}

// Endpoints are the addresses of an OpenID Connect provider.
type Endpoints struct {
	Authorize, Token, Userinfo string
}

// Directory is an LDAP server.
type Directory struct {
	Server     string   // ldaps://host, or ldap://host for StartTLS; a port may follow
	BindDN     []string // templates, e.g. uid={username},ou=people,dc=lab,dc=example
	SearchBase string   // where users are
	Groups     []string // distinguished names; members may log in
	LookupDN   bool     // search for the user's distinguished name first
	SearchUser string   // user for the search; empty: anonymous
	SearchPass secret.Value
	UserAttr   string // what users type; default uid
}

// classes maps the names of authenticators in the hub's image (z2jh 4.4
// images/hub/requirements.txt) to their classes.
var classes = map[string][2]string{
	Dummy:  {"shared-password", "SharedPasswordAuthenticator"},
	Native: {"native", "NativeAuthenticator"},
	OIDC:   {"generic-oauth", "GenericOAuthenticator"},
	LDAP:   {"ldap", "LDAPAuthenticator"},
	GitHub: {"github", "GitHubOAuthenticator"},
}

// bundlePath is where hub and notebooks find all authorities in one file.
const bundlePath = "/run/homelab-ca/bundle.crt"

// login is a hub as its way to log in sees it.
type login struct{ Hub }

// authConfig renders everything about logging in: sections of hub.config.
func (h login) authConfig() map[string]any {
	a := h.Auth
	base := map[string]any{
		// The service creates the user that verifies the hub; that user can never log in.
		"blocked_users": []any{verifyUser},
	}
	if a.allowsAll() {
		base["allow_all"] = true
	}
	putList(base, "allowed_users", a.Users)
	putList(base, "admin_users", a.Admins)

	own := map[string]any{}
	switch a.Kind {
	case Native:
		own["open_signup"] = a.OpenSignup
	case OIDC:
		h.oidc(own)
	case LDAP:
		h.ldap(own)
	case GitHub:
		h.oauth(own)
		putList(own, "allowed_organizations", a.Organizations)
		if len(a.Organizations) > 0 { // otherwise it sees only public members
			own["scope"] = []any{"read:user", "read:org"}
		}
	}
	class := classes[a.Kind]
	config := map[string]any{
		"JupyterHub":    map[string]any{"authenticator_class": class[0]},
		"Authenticator": base,
	}
	if len(own) > 0 {
		config[class[1]] = own
	}
	return config
}

// allowsAll says whether a successful login suffices. Native users were already approved by an
// admin, or by OpenSignup.
func (a Auth) allowsAll() bool {
	return a.AllowAll || a.Kind == Native && len(a.Users) == 0
}

func (h login) oauth(own map[string]any) {
	own["client_id"] = h.Auth.ClientID
	own["oauth_callback_url"] = h.URL() + "/hub/oauth_callback"
	if len(h.bundle()) > 0 {
		own["http_request_kwargs"] = map[string]any{"ca_certs": bundlePath}
	}
}

func (h login) oidc(own map[string]any) {
	a := h.Auth
	h.oauth(own)
	own["authorize_url"] = a.Endpoints.Authorize
	own["token_url"] = a.Endpoints.Token
	own["userdata_url"] = a.Endpoints.Userinfo
	own["username_claim"] = or(a.UsernameClaim, "preferred_username")
	scopes := a.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid", "profile", "email"}
	}
	putList(own, "scope", scopes)
	if a.LoginService != "" {
		own["login_service"] = a.LoginService
	}
	if a.GroupsClaim != "" {
		// The provider's answer is below this key (oauthenticator 17.4 oauth2.py,
		// user_auth_state_key); claim_groups_key of older guides is deprecated.
		own["manage_groups"] = true
		own["auth_state_groups_key"] = "oauth_user." + a.GroupsClaim
	}
	putList(own, "allowed_groups", a.AllowedGroups)
	putList(own, "admin_groups", a.AdminGroups)
}

func (h login) ldap(own map[string]any) {
	d := h.Auth.Directory
	host, port, strategy, _ := d.server()
	own["server_address"] = host
	own["tls_strategy"] = strategy
	if port != 0 {
		own["server_port"] = port
	}
	// ldap3 accepts any certificate by default; 2 is Python's ssl.CERT_REQUIRED.
	tls := map[string]any{"validate": 2}
	if len(h.bundle()) > 0 {
		tls["ca_certs_file"] = bundlePath
	}
	own["tls_kwargs"] = tls
	putList(own, "bind_dn_template", d.BindDN)
	putList(own, "allowed_groups", d.Groups)
	own["user_attribute"] = or(d.UserAttr, "uid")
	if d.SearchBase != "" {
		own["user_search_base"] = d.SearchBase
	}
	if d.LookupDN {
		own["lookup_dn"] = true
		own["lookup_dn_user_dn_attribute"] = or(d.UserAttr, "uid")
		if d.SearchUser != "" {
			own["lookup_dn_search_user"] = d.SearchUser
		}
	}
}

// server splits the directory's address; the strategies are ldapauthenticator's.
func (d Directory) server() (host string, port int, strategy string, err error) {
	u, err := url.Parse(d.Server)
	if err != nil {
		return "", 0, "", err
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil {
			return "", 0, "", err
		}
	}
	strategy = "before_bind"
	if u.Scheme == "ldaps" {
		strategy = "on_connect"
	}
	return u.Hostname(), port, strategy, nil
}

// secretConfig is the part of hub.config that must not be in values: the chart merges it from
// the Secret of hub.existingSecret (z2jh 4.4 files/hub/z2jh.py, _load_config).
func (a Auth) secretConfig() map[string]any {
	class := classes[a.Kind][1]
	switch a.Kind {
	case OIDC, GitHub:
		return map[string]any{class: map[string]any{"client_secret": a.ClientSecret.Reveal()}}
	case LDAP:
		if !a.Directory.SearchPass.IsZero() {
			return map[string]any{class: map[string]any{"lookup_dn_search_password": a.Directory.SearchPass.Reveal()}}
		}
	}
	return nil
}

func putList(in map[string]any, key string, list []string) {
	if len(list) > 0 {
		in[key] = anys(list)
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
