package jupyterhub

import (
	"cmp"
	"net/url"
	"strconv"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

// Secrets are what spec.Hub refers to.
type Secrets struct {
	Password secret.Value // that all users have with dummy; zero: generated
	Client   secret.Value // of OIDC and GitHub
	Search   secret.Value // the directory's, for its SearchUser
	Database secret.Value // address of a database
}

// Endpoints are the addresses of an OpenID Connect provider.
type Endpoints struct {
	Authorize, Token, Userinfo string
}

// classes maps the names of authenticators in the hub's image (z2jh 4.4
// images/hub/requirements.txt) to their classes.
var classes = map[string][2]string{
	spec.AuthDummy:  {"shared-password", "SharedPasswordAuthenticator"},
	spec.AuthNative: {"native", "NativeAuthenticator"},
	spec.AuthOIDC:   {"generic-oauth", "GenericOAuthenticator"},
	spec.AuthLDAP:   {"ldap", "LDAPAuthenticator"},
	spec.AuthGitHub: {"github", "GitHubOAuthenticator"},
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
	if allowsAll(a) {
		base["allow_all"] = true
	}
	putList(base, "allowed_users", a.Users)
	putList(base, "admin_users", a.Admins)

	own := map[string]any{}
	switch a.Kind {
	case spec.AuthNative:
		own["open_signup"] = a.Native != nil && a.Native.OpenSignup
	case spec.AuthOIDC:
		h.oidc(own)
	case spec.AuthLDAP:
		h.ldap(own)
	case spec.AuthGitHub:
		h.oauth(own, a.GitHub.ClientID)
		putList(own, "allowed_organizations", a.GitHub.Organizations)
		if len(a.GitHub.Organizations) > 0 { // otherwise it sees only public members
			own["scope"] = []any{"read:user", "read:org"}
		}
	}
	if h.SignsIn {
		base["auto_login"], base["enable_auth_state"], base["auth_refresh_age"] = true, true, int(spec.LoginCheck.Seconds())
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
// admin, or by openSignup.
func allowsAll(a spec.HubAuth) bool {
	return a.AllowAll.IsOn() || a.Kind == spec.AuthNative && len(a.Users) == 0
}

func (h login) oauth(own map[string]any, client string) {
	own["client_id"] = client
	own["oauth_callback_url"] = h.URL() + "/hub/oauth_callback"
	if len(h.bundle()) > 0 {
		own["http_request_kwargs"] = map[string]any{"ca_certs": bundlePath}
	}
}

func (h login) oidc(own map[string]any) {
	a := h.Auth.OIDC
	h.oauth(own, a.ClientID)
	own["authorize_url"] = h.Endpoints.Authorize
	own["token_url"] = h.Endpoints.Token
	own["userdata_url"] = h.Endpoints.Userinfo
	own["username_claim"] = cmp.Or(a.UsernameClaim, "preferred_username")
	scopes := a.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid", "profile", "email"}
	}
	putList(own, "scope", scopes)
	if a.Button != "" {
		own["login_service"] = a.Button
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
	d := h.Auth.LDAP
	host, port, strategy, _ := splitServer(d.Server)
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
	own["user_attribute"] = cmp.Or(d.UserAttribute, "uid")
	if d.SearchBase != "" {
		own["user_search_base"] = d.SearchBase
	}
	if d.LookupDN {
		own["lookup_dn"] = true
		own["lookup_dn_user_dn_attribute"] = cmp.Or(d.UserAttribute, "uid")
		if d.SearchUser != "" {
			own["lookup_dn_search_user"] = d.SearchUser
		}
	}
}

// splitServer splits a directory's address; the strategies are ldapauthenticator's.
func splitServer(address string) (host string, port int, strategy string, err error) {
	u, err := url.Parse(address)
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
func (h login) secretConfig() map[string]any {
	class := classes[h.Auth.Kind][1]
	switch h.Auth.Kind {
	case spec.AuthOIDC, spec.AuthGitHub:
		return map[string]any{class: map[string]any{"client_secret": h.Secrets.Client.Reveal()}}
	case spec.AuthLDAP:
		if !h.Secrets.Search.IsZero() {
			return map[string]any{class: map[string]any{"lookup_dn_search_password": h.Secrets.Search.Reveal()}}
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
