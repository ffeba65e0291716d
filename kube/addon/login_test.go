package addon_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// hashed is "secret" with bcrypt, at cost 10.
const hashed = "$2y$10$8vuzC5x4p7FlcR2Oh9lU2.bYv9xKBBz9Fq8tX0nN7oR1oqW0XQbzW"

// signIn is a login with every source, for a hub and, if there is one, Grafana.
func signIn(t *testing.T, m *spec.Monitoring) addon.Login {
	t.Helper()
	l := &spec.Login{
		Hostname: "login.example.org", AllowedGroups: []string{"lab", "Domain Users"}, AdminGroups: []string{"lab-example:staff"},
		ClusterRoles: map[string]string{"lab-example:staff": "cluster-admin", "Domain Users": "view"},
		People:       []spec.Person{{Name: "ada", Email: "ada@example.org", Hash: told(t, hashed), Groups: []string{"lab"}}},
		GitHub:       &spec.LoginGitHub{ClientID: "of-github", ClientSecret: told(t, "one $HOME")},
		LDAP: &spec.LoginLDAP{Server: "ldap://ldap.example.org", SearchUser: "cn=dex,dc=example,dc=org", SearchPassword: told(t, "two"), SearchBase: "ou=people,dc=example,dc=org",
			UserAttribute: "uid", GroupBase: "ou=groups,dc=example,dc=org", MemberAttribute: "memberUid", CA: written(t, "PEM")},
		OIDC: &spec.LoginOIDC{Issuer: "https://id.example.org", ClientID: "dex", ClientSecret: told(t, "three"), Scopes: []string{"profile", "email"},
			GroupsClaim: "roles", NameClaim: "email", CA: written(t, "PEM")},
	}
	p := &spec.Platform{Login: l, TLS: &spec.TLS{}, Monitoring: m, Hub: &spec.Hub{Hostname: "hub.example.org"}}
	p.Hub.Auth.OIDC = &spec.OIDCAuth{Issuer: p.Issuer().URL}
	return addon.Login{Login: l, Platform: p}
}

// existing is a platform whose programs ask a provider, each with what it may differ in.
func existing(t *testing.T) *spec.Platform {
	t.Helper()
	p := paged(&spec.TLS{Source: spec.TLSSelfSigned, Issuer: "homelab"})
	p.Login = &spec.Login{AllowedGroups: []string{"lab"}, AdminGroups: []string{"staff"}, ClusterRoles: map[string]string{"staff": "cluster-admin"}, Provider: &spec.LoginProvider{
		Issuer: "https://id.example.org/realms/lab/", CA: written(t, "PEM"), ClientID: "lab", ClientSecret: told(t, "of all programs"),
		Clients: []spec.LoginClient{{Name: spec.LoginGrafana, ClientID: "graphs", ClientSecret: told(t, "of Grafana alone")}, {Name: spec.LoginKubectl, ClientID: "public"}},
		Scopes:  []string{"openid", "email", "offline_access"}, GroupsClaim: "roles", NameClaim: "email",
	}}
	p.Monitoring, p.Rancher = &spec.Monitoring{Hostname: "grafana.example.org", Retention: 24 * time.Hour, Size: spec.GiB}, &spec.Rancher{Hostname: "rancher.example.org"}
	return p
}

// TestProviderSecrets: each program gets the secret of its own client, or that of all, and Grafana and Rancher what the
// provider publishes.
func TestProviderSecrets(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		p := existing(t)
		found := p.Issuer()
		found.Authorize, found.Token, found.Userinfo, found.Keys = "https://id.example.org/a", "https://id.example.org/t", "https://id.example.org/u", "https://id.example.org/k"
		made := addon.Site{Ingress: traefik, TLS: p.TLS, Discover: func(context.Context) (spec.Issuer, error) { return found, nil }}
		grafana, err := must(t, addon.Monitoring{Monitoring: p.Monitoring, Platform: p}, made).Resolve(t.Context(), s.Client)
		require.NoError(t, err)
		its := grafana.Secrets[len(grafana.Secrets)-1]
		assert.Equal(t, "grafana-login", its.Name)
		for key, want := range map[string]string{"CLIENT_SECRET": "of Grafana alone", "AUTH_URL": found.Authorize, "TOKEN_URL": found.Token, "API_URL": found.Userinfo} {
			assert.Equal(t, want, its.Data["GF_AUTH_GENERIC_OAUTH_"+key].Reveal())
		}
		p.TLS = &spec.TLS{Source: spec.TLSSecret, Secret: "argocd/argocd-pages-tls"} // nothing is copied
		made.TLS = p.TLS
		pages, err := must(t, addon.ArgoCDPages{Platform: p}, made).Resolve(t.Context(), s.Client)
		require.NoError(t, err)
		its = pages.Secrets[len(pages.Secrets)-1]
		assert.Equal(t, "of all programs", its.Data["client-secret"].Reveal(), "login.provider.clientSecret")
		assert.Equal(t, "PEM", its.Data["ca.crt"].Reveal(), "login.provider.ca")
	})
}

// TestLoginConfig: Dex's configuration, word for word; it is in a Secret, and nowhere else.
func TestLoginConfig(t *testing.T) {
	p := must(t, signIn(t, &spec.Monitoring{Hostname: "grafana.example.org"}), addon.Site{Ingress: traefik, TLS: &spec.TLS{Source: spec.TLSSelfSigned, Issuer: "homelab"}})
	assert.YAMLEq(t, `
issuer: https://login.example.org
storage: {type: kubernetes, config: {inCluster: true}}
web: {http: "0.0.0.0:5556"}
telemetry: {http: "0.0.0.0:5558"}
expiry: {idTokens: 45s, refreshTokens: {validIfNotUsedFor: 168h, absoluteLifetime: 720h, reuseInterval: 10s}}
oauth2: {skipApprovalScreen: true}
staticClients:
- {id: hub, name: Notebooks, secretEnv: CLIENT_HUB, redirectURIs: ["https://hub.example.org/hub/oauth_callback"]}
- {id: grafana, name: Grafana, secretEnv: CLIENT_GRAFANA, redirectURIs: ["https://grafana.example.org/login/generic_oauth"]}
- {id: kubectl, name: kubectl, public: true, redirectURIs: ["http://localhost:8000", "http://localhost:18000"]}
enablePasswordDB: true
staticPasswords:
- {email: ada@example.org, hash: `+hashed+`, username: ada, preferredUsername: ada, userID: ada, groups: [lab]}
connectors:
- {type: github, id: github, name: GitHub, config: {clientID: of-github, clientSecret: one $HOME, redirectURI: "https://login.example.org/callback", loadAllGroups: true, teamNameField: slug}}
- type: oidc
  id: oidc
  name: OpenID Connect
  config:
    {issuer: "https://id.example.org", clientID: dex, clientSecret: three, redirectURI: "https://login.example.org/callback", scopes: [profile, email], getUserInfo: true,
     insecureEnableGroups: true, insecureSkipEmailVerified: true, userNameKey: email, claimMapping: {preferred_username: email, groups: roles}, overrideClaimMapping: true, rootCAs: [PEM]}
- type: ldap
  id: ldap
  name: LDAP
  config:
    {host: "ldap.example.org:389", startTLS: true, bindDN: "cn=dex,dc=example,dc=org", bindPW: two, usernamePrompt: Name, rootCAData: UEVN,
     userSearch: {baseDN: "ou=people,dc=example,dc=org", username: uid, idAttr: uid, emailAttr: mail, nameAttr: cn, preferredUsernameAttr: uid},
     groupSearch: {baseDN: "ou=groups,dc=example,dc=org", nameAttr: cn, userMatchers: [{userAttr: uid, groupAttr: memberUid}]}}
`, p.Secrets[0].Data["config.yaml"].Reveal())
	objects, err := yaml.Marshal(p.Before)
	require.NoError(t, err)
	for _, hidden := range []string{hashed, "three", "one $HOME"} {
		assert.NotContains(t, string(objects), hidden)
	}
}

// TestLoginHash: what is not a hash that Dex takes is refused without being shown.
func TestLoginHash(t *testing.T) {
	for text, want := range map[string]string{
		"hunter2": "login.people.ada.hash: the secret is not a bcrypt hash: store what htpasswd -nBC 12 NAME prints after the colon",
		"$2y$05$8vuzC5x4p7FlcR2Oh9lU2.bYv9xKBBz9Fq8tX0nN7oR1oqW0XQbzW": "login.people.ada.hash: the hash has cost 5, and Dex takes 10 to 16: store what htpasswd -nBC 12 NAME prints after the colon",
	} {
		l := signIn(t, nil)
		l.People[0].Hash = told(t, text)
		_, err := l.Make(&addon.Site{Ingress: traefik})
		require.EqualError(t, err, want)
	}
}
