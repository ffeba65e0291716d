package addon

import (
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const (
	grafanaLogin = "grafana-login"          // a Secret with what Grafana proves itself with to the login
	grafanaOAuth = "GF_AUTH_GENERIC_OAUTH_" // begins variables that Grafana reads in place of its settings

	grafanaCA, grafanaCAPath = "grafana-login-ca", "/etc/login"
)

// signsIn reports whether people sign in to Grafana by the login.
func (m Monitoring) signsIn() bool { return m.Platform != nil && m.Platform.GrafanaSignsIn() }

// issuer is where people sign in to Grafana; empty: with its own password.
func (m Monitoring) issuer() string {
	if !m.signsIn() {
		return ""
	}
	return m.Platform.Issuer().Origin()
}

// signIn lets Grafana send people to the login. Its own admin signs in at /login?disableAutoLogin.
func (m Monitoring) signIn(g, ini values) ([]chart.Secret, error) {
	its := m.Platform.Issuer()
	g["envFromSecret"] = grafanaLogin
	oauth := values{
		"enabled": true, "name": "the cluster's login", "auto_login": true, "allow_sign_up": true, "use_pkce": true,
		"client_id": m.Platform.Login.Client(spec.LoginGrafana).ClientID, "scopes": strings.Join(its.Scopes, " "),
		// When the token expires, it asks for another one; without one the session ends.
		"use_refresh_token":     true,
		"login_attribute_path":  its.NameClaim,
		"name_attribute_path":   its.NameClaim,
		"groups_attribute_path": its.GroupsClaim,
		// A person without one of these groups has no role, and so cannot sign in.
		"role_attribute_path": m.roles(its.GroupsClaim), "role_attribute_strict": true,
	}
	if its.Token != "" {
		oauth["auth_url"], oauth["token_url"], oauth["api_url"] = its.Authorize, its.Token, its.Userinfo
	}
	// It reads a person's groups at a sign-in only: so they sign in again twice a day.
	ini["auth"], ini["auth.generic_oauth"] = values{"login_maximum_lifetime_duration": "12h"}, oauth
	return m.trusts(g, oauth)
}

// roles is an expression of JMESPath for a person's role.
func (m Monitoring) roles(claim string) string {
	of := func(groups []string, role string) (out []string) {
		for _, g := range groups {
			out = append(out, "contains("+claim+"[*], '"+g+"') && '"+role+"'")
		}
		return out
	}
	return strings.Join(slices.Concat(of(m.Platform.Login.AdminGroups, "Admin"), of(m.Platform.Login.AllowedGroups, "Viewer")), " || ")
}

// addresses are where Grafana asks a provider, which cannot be asked for them by Grafana itself. It reads them from the
// environment, with which they are in the same Secret as what it proves itself with.
func (m Monitoring) addresses(s *Site) func(context.Context) (map[string]secret.Value, error) {
	return func(ctx context.Context) (map[string]secret.Value, error) {
		if m.Platform.Issuer().Token != "" {
			return nil, nil
		}
		its, err := s.Discover(ctx)
		return map[string]secret.Value{grafanaOAuth + "AUTH_URL": secret.New(its.Authorize), grafanaOAuth + "TOKEN_URL": secret.New(its.Token),
			grafanaOAuth + "API_URL": secret.New(its.Userinfo)}, err
	}
}

// trusts lets Grafana trust the authority of a provider's certificate.
func (m Monitoring) trusts(g, oauth values) ([]chart.Secret, error) {
	ca, err := issuerAuthority(m.Platform)
	if err != nil || len(ca) == 0 {
		return nil, err
	}
	oauth["tls_client_ca"] = grafanaCAPath + "/" + loginCA
	g["extraSecretMounts"] = []any{values{"name": grafanaCA, "secretName": grafanaCA, "mountPath": grafanaCAPath, "readOnly": true}}
	return []chart.Secret{{Namespace: monitoringNamespace, Name: grafanaCA, Data: map[string]secret.Value{loginCA: secret.New(string(ca))}}}, nil
}
