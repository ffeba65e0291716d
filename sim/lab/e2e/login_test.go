package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/oauth2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/internal/labtest"
	"github.com/cps-gpu/homelab/sim/lab/internal/pki"
	"github.com/cps-gpu/homelab/sim/lab/login"
)

// provider is one that exists: a Dex elsewhere, with a certificate of its own, that takes any name with any groups.
type provider struct{ *httptest.Server }

func newProvider(t *testing.T) provider {
	t.Helper()
	var p provider
	var serves http.Handler
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serves.ServeHTTP(w, r) }))
	t.Cleanup(p.Close)
	var err error
	serves, err = login.Dex(login.Options{Config: fmt.Appendf(nil, `{issuer: '%s', connectors: [{type: oidc, id: oidc, name: Lab}],
		staticClients: [{id: lab, secret: hush, redirectURIs: []}, {id: kubectl, public: true, redirectURIs: ['http://localhost:8000']}]}`, p.URL), Now: time.Now})
	require.NoError(t, err)
	return p
}

// token signs somebody in as kubelogin does.
func (p provider) token(t *testing.T, name, group string) string {
	t.Helper()
	browser := p.Client()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	var code string
	browser.Jar, browser.CheckRedirect = jar, func(r *http.Request, _ []*http.Request) error {
		if code = r.URL.Query().Get("code"); code != "" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	ctx := oidc.ClientContext(t.Context(), browser)
	found, err := oidc.NewProvider(ctx, p.URL)
	require.NoError(t, err)
	config := oauth2.Config{ClientID: "kubectl", RedirectURL: "http://localhost:8000", Endpoint: found.Endpoint(), Scopes: []string{"openid", "profile", "groups"}}
	verifier := oauth2.GenerateVerifier()
	res, err := browser.Get(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	form := url.Values{"state": {res.Request.URL.Query().Get("state")}, "login": {name}, "groups": {group}}
	res, err = browser.PostForm(p.URL+res.Request.URL.Path, form)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	tokens, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	return tokens.Extra("id_token").(string)
}

// ofRancher is what Rancher itself has made, and leaves when its chart goes: its Fleet, its webhook, certificates and settings.
var ofRancher = regexp.MustCompile(`^\S+ (cattle-system|cattle-fleet-system|cattle-fleet-local-system|fleet-local)/|^\S+\.management\.cattle\.io `)

// TestLivesOfLogin: a login by a provider comes with the programs that people sign in to, gives their groups other rights, gives way to
// Dex and comes back, and leaves with them; nothing of it stays but what stays by design. A real API server takes the provider's tokens
// for as long as the file has them.
func TestLivesOfLogin(t *testing.T) {
	t.Parallel()
	onEither(t, 4, []labctl.Guests{{}, labtest.Real()}, lifeOfLogin) // of four runs two have one
}

func lifeOfLogin(t *testing.T, kind labctl.Guests) {
	t.Parallel()
	l := newPartsLife(t, kind, "")
	cert, key, err := pki.NewCA("lab.example")
	require.NoError(t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret of ada"), 10)
	require.NoError(t, err)
	p := newProvider(t)
	for file, text := range map[string][]byte{"ca.pem": cert, "ca.key": key, "hash": hash, "hush": []byte("hush"),
		"provider.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})} {
		l.write(t, file, string(text))
	}
	const rest = `tls: {source: ca, ca: ca.pem, key: 'file:ca.key'}
storage: {default: local-path}
hub: {hostname: hub.lab.example}
monitoring: {size: 10GiB, hostname: grafana.lab.example}
rancher: {hostname: rancher.lab.example}
argocd: {hostname: argocd.lab.example}
`
	theirs := "login: {allowedGroups: [lab], adminGroups: [staff], clusterRoles: {staff: cluster-admin, lab: view}, provider: {issuer: '" + p.URL +
		"', ca: provider.pem, clientID: lab, clientSecret: 'file:hush', clients: {kubectl: {clientID: kubectl}}}}\n"
	const dex = "login: {hostname: login.lab.example, allowedGroups: [lab], adminGroups: [staff], clusterRoles: {staff: cluster-admin}, people: {ada: {email: ada@lab.example, hash: 'file:hash', groups: [staff]}}}\n"
	to := func(text string, steps ...string) {
		t.Helper()
		l.write(t, "cluster.yaml", l.given+text)
		_, talk := l.must(t, "cluster:up", "-yes")
		for _, step := range steps {
			assert.Regexp(t, l.says(t, step), talk)
		}
		l.againNothing(t)
	}
	until := func(token, want string) {
		t.Helper()
		if !kind.Kubernetes {
			return
		}
		server := l.server(t)
		var have string
		assert.Eventually(t, func() bool {
			var err error
			if have, err = labtest.Rights(t.Context(), server, token); apierrors.IsUnauthorized(err) {
				have, err = "401", nil
			}
			return err == nil && have == want
		}, time.Minute, 500*time.Millisecond, want)
		assert.Equal(t, want, have)
	}
	ada, bob := p.token(t, "ada", "staff"), p.token(t, "bob", "lab")
	to(rest + theirs)
	until(ada, "login:ada [login:staff system:authenticated] pods=true secrets=true")
	until(bob, "login:bob [login:lab system:authenticated] pods=true secrets=false")
	to(rest+strings.Replace(theirs, ", lab: view", "", 1), "objects/login-provider")
	until(bob, "login:bob [login:lab system:authenticated] pods=false secrets=false")
	to(rest+dex, "objects/dex", "chart/jupyterhub", "secrets/monitoring")
	until(ada, "401")
	to(rest+theirs, "objects/login-provider", "chart/jupyterhub", "secrets/monitoring")
	until(bob, "login:bob [login:lab system:authenticated] pods=true secrets=false")
	to(rest)
	until(ada, "401")
	to("")
	l.leftNothing(t, ofRancher)
}
