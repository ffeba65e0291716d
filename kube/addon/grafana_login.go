package addon

import (
	"context"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/secret"
)

const (
	grafanaLogin    = "grafana-login"                       // a Secret with what Grafana proves itself with to Dex
	grafanaVariable = "GF_AUTH_GENERIC_OAUTH_CLIENT_SECRET" // which Grafana reads in place of its setting
)

// signsIn reports whether people sign in to Grafana by Dex.
func (m Monitoring) signsIn() bool { return m.Login != nil && m.Hostname != "" }

// signIn lets Grafana send people to Dex. Its own admin signs in at /login?disableAutoLogin.
func (m Monitoring) signIn(g, ini values) {
	g["envFromSecret"] = grafanaLogin
	ini["auth.generic_oauth"] = values{
		"enabled": true, "name": "the cluster's login", "auto_login": true, "allow_sign_up": true, "use_pkce": true,
		"client_id": ClientGrafana, "scopes": strings.Join(spec.LoginScopes(), " "),
		"auth_url": m.Issuer + "/auth", "token_url": spec.LoginService + "/token", "api_url": spec.LoginService + "/userinfo",
		// When the token expires, it asks Dex for another one; without one the session ends.
		"use_refresh_token":     true,
		"login_attribute_path":  "preferred_username",
		"name_attribute_path":   "preferred_username",
		"groups_attribute_path": "groups",
		// A person without one of these groups has no role, and so cannot sign in.
		"role_attribute_path": m.roles(), "role_attribute_strict": true,
	}
	// It reads a person's groups at a sign-in only: so they sign in again twice a day.
	ini["auth"] = values{"login_maximum_lifetime_duration": "12h"}
}

// roles is an expression of JMESPath for a person's role.
func (m Monitoring) roles() string {
	of := func(groups []string, role string) (out []string) {
		for _, g := range groups {
			out = append(out, "contains(groups[*], '"+g+"') && '"+role+"'")
		}
		return out
	}
	return strings.Join(slices.Concat(of(m.Login.AdminGroups, "Admin"), of(m.Login.AllowedGroups, "Viewer")), " || ")
}

// withLogin adds to a part a Secret with what a client proves itself with to Dex, which exists in the cluster only.
func withLogin(part chart.Part, first func(context.Context, *kube.Client) (chart.Part, error), id string, in chart.Secret, key string) func(context.Context, *kube.Client) (chart.Part, error) {
	return func(ctx context.Context, client *kube.Client) (chart.Part, error) {
		out := part
		if first != nil {
			var err error
			if out, err = first(ctx, client); err != nil {
				return out, err
			}
		}
		its, err := LoginSecret(ctx, client, id)
		made := in
		made.Data = map[string]secret.Value{key: its}
		out.Secrets = append(slices.Clone(out.Secrets), made)
		return out, err
	}
}
