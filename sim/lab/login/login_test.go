package login_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/oauth2"

	"github.com/cps-gpu/homelab/sim/lab/login"
)

const ini = `[server]
root_url = https://grafana.lab.example

[auth.generic_oauth]
enabled = true
client_id = grafana
scopes = openid profile email groups offline_access
auth_url = https://login.lab.example/auth
token_url = http://dex.dex:5556/token
api_url = http://dex.dex:5556/userinfo
login_attribute_path = preferred_username
role_attribute_path = contains(groups[*], 'admins') && 'Admin' || contains(groups[*], 'lab') && 'Viewer'
role_attribute_strict = true
`

// world is Dex and a program behind it, at their names, and a clock.
type world struct {
	t     *testing.T
	hosts map[string]http.Handler
	state login.State

	mu  sync.Mutex
	now time.Time
}

func (w *world) clock() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

func (w *world) later(d time.Duration) { w.mu.Lock(); defer w.mu.Unlock(); w.now = w.now.Add(d) }

// RoundTrip asks the program that a host is.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h := w.hosts[r.URL.Hostname()]
	if h == nil {
		h = http.NotFoundHandler()
	}
	h.ServeHTTP(rec, r)
	res := rec.Result()
	res.Request = r
	return res, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hosts: map[string]http.Handler{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	env := func(name string) string {
		return map[string]string{"CLIENT_GRAFANA": "hush", "GF_AUTH_GENERIC_OAUTH_CLIENT_SECRET": "hush"}[name]
	}
	w.hosts["grafana.lab.example"] = login.Grafana(ini, env, &http.Client{Transport: w}, w.clock)
	return w
}

// dex starts Dex, again with what it has stored, for people and sources.
func (w *world) dex(people, sources string) {
	w.t.Helper()
	h, err := login.Dex(login.Options{Config: []byte(`
issuer: https://login.lab.example
expiry: {idTokens: 45s}
staticClients: [{id: grafana, name: Grafana, secretEnv: CLIENT_GRAFANA, redirectURIs: ["https://grafana.lab.example/login/generic_oauth"]},
  {id: chat, name: Chat, secretEnv: CLIENT_CHAT, redirectURIs: ["https://chat.lab.example/oauth2/callback"]},
  {id: argocd, name: Argo CD, secretEnv: CLIENT_ARGOCD, redirectURIs: ["https://argocd.lab.example/oauth2/callback"]},
  {id: kubectl, public: true, redirectURIs: ["http://localhost:8000"]}]
enablePasswordDB: ` + map[bool]string{true: "true", false: "false"}[people != ""] + `
staticPasswords: [` + people + `]
connectors: [` + sources + `]
`), Env: func(string) string { return "hush" }, State: w.state, Save: func(s login.State) { w.state = s }, Now: w.clock})
	require.NoError(w.t, err)
	w.hosts["login.lab.example"], w.hosts["dex.dex"] = h, h
}

func person(t *testing.T, name, groups string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret of "+name), bcrypt.MinCost)
	require.NoError(t, err)
	return `{email: "` + name + `@lab.example", hash: "` + string(hash) + `", username: ` + name + `, preferredUsername: ` + name + `, userID: ` + name + `, groups: [` + groups + `]},`
}

// browser is one with cookies.
func (w *world) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	return &http.Client{Transport: w, Jar: jar}
}

var hidden = regexp.MustCompile(`action="([^"]+)"><input type="hidden" name="state" value="([^"]+)"`)

// open opens a page, and sends the form of Dex if there is one.
func (w *world) open(b *http.Client, at string, form url.Values) (status int, text string) {
	w.t.Helper()
	get := func(res *http.Response, err error) (*http.Response, string) {
		require.NoError(w.t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(w.t, err)
		return res, string(data)
	}
	res, text := get(b.Get(at))
	m := hidden.FindStringSubmatch(text)
	if m == nil || form == nil {
		return res.StatusCode, text
	}
	form.Set("state", m[2])
	res, text = get(b.PostForm("https://"+res.Request.URL.Host+m[1], form))
	return res.StatusCode, text
}

func as(name string) url.Values {
	return url.Values{"login": {name + "@lab.example"}, "password": {"secret of " + name}}
}

const grafanaURL = "https://grafana.lab.example/"

// TestPeople: people of Dex's own sign in with their passwords; groups give roles; who is gone from the
// configuration is out when the token has expired, and others stay in.
func TestPeople(t *testing.T) {
	w := newWorld(t)
	ada, bob := person(t, "ada", "admins"), person(t, "bob", "lab")
	w.dex(ada+bob+person(t, "eve", "guests"), "")
	b := map[string]*http.Client{}
	for name, want := range map[string]string{"ada": "Signed in as ada, whose role is Admin.", "bob": "Signed in as bob, whose role is Viewer.", "eve": "did not return a role"} {
		b[name] = w.browser()
		_, text := w.open(b[name], grafanaURL, as(name))
		assert.Contains(t, text, want)
	}
	status, text := w.open(w.browser(), grafanaURL, url.Values{"login": {"ada@lab.example"}, "password": {"wrong"}})
	assert.Equal(t, http.StatusUnauthorized, status)
	assert.Contains(t, text, "Invalid Email Address and password.")

	w.dex(bob, "")
	_, text = w.open(b["ada"], grafanaURL, nil)
	assert.Contains(t, text, "Signed in as ada", "her token says so for a while")
	w.later(45 * time.Second)
	_, text = w.open(b["ada"], grafanaURL, nil)
	assert.Contains(t, text, "Email Address", "she has to sign in")
	status, _ = w.open(b["ada"], grafanaURL, as("ada"))
	assert.Equal(t, http.StatusUnauthorized, status, "and cannot")
	_, text = w.open(b["bob"], grafanaURL, nil)
	assert.Contains(t, text, "Signed in as bob")
}

// TestRemembers: a provider asks once, a directory at every sign-in.
func TestRemembers(t *testing.T) {
	for source, once := range map[string]bool{"github": true, "oidc": true, "ldap": false} {
		w := newWorld(t)
		w.dex("", `{type: `+source+`, id: `+source+`, name: Elsewhere}`)
		b := w.browser()
		_, text := w.open(b, grafanaURL, url.Values{"login": {"ada"}, "groups": {"guests, lab"}})
		assert.Contains(t, text, "Signed in as ada, whose role is Viewer.", source)
		w.hosts["grafana.lab.example"] = login.Grafana(ini, func(name string) string { return map[bool]string{true: "hush"}[strings.HasSuffix(name, "_SECRET")] }, &http.Client{Transport: w}, w.clock) // knows no session
		_, text = w.open(b, grafanaURL, nil)
		assert.Equal(t, once, strings.Contains(text, "Signed in as ada"), source)
	}
}

// TestRefused: nothing is sent to an address, or issued to a program, that the configuration does not name.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.dex(person(t, "ada", "lab"), "")
	for query, want := range map[string]int{
		"client_id=grafana&redirect_uri=https%3A%2F%2Fevil.example%2F":                                                                             http.StatusBadRequest,
		"client_id=grafana&redirect_uri=https%3A%2F%2Fgrafana.lab.example%2Flogin%2Fgeneric_oauth%2F":                                              http.StatusBadRequest,
		"client_id=other&redirect_uri=https%3A%2F%2Fgrafana.lab.example%2Flogin%2Fgeneric_oauth":                                                   http.StatusNotFound,
		"client_id=grafana&response_type=code&scope=openid&redirect_uri=https%3A%2F%2Fgrafana.lab.example%2Flogin%2Fgeneric_oauth&code_challenge=": http.StatusOK,
	} {
		status, _ := w.open(w.browser(), "https://login.lab.example/auth?"+query, nil)
		assert.Equal(t, want, status, query)
	}
	res, err := (&http.Client{Transport: w}).PostForm("http://dex.dex:5556/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {"grafana"}, "client_secret": {"guess"}})
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
}

// TestForeignClient: a library that is not ours finds everything, and checks signature, issuer, audience and times.
func TestForeignClient(t *testing.T) {
	w := newWorld(t)
	w.dex(person(t, "ada", "lab, admins"), "")
	ctx := oidc.ClientContext(context.Background(), &http.Client{Transport: w})
	provider, err := oidc.NewProvider(ctx, "https://login.lab.example")
	require.NoError(t, err)
	verifier := oauth2.GenerateVerifier()
	c := oauth2.Config{ClientID: "grafana", ClientSecret: "hush", Endpoint: provider.Endpoint(), RedirectURL: "https://grafana.lab.example/login/generic_oauth", Scopes: []string{"openid", "groups", "profile", "offline_access"}}
	code := w.code(c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oidc.Nonce("once")), as("ada"))
	_, err = c.Exchange(ctx, code, oauth2.VerifierOption("another"))
	require.Error(t, err, "the verifier does not fit")

	code = w.code(c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oidc.Nonce("once")), as("ada"))
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: "grafana", Now: w.clock}).Verify(ctx, raw)
	require.NoError(t, err)
	var claims struct {
		Name   string   `json:"preferred_username"`
		Groups []string `json:"groups"`
	}
	require.NoError(t, id.Claims(&claims))
	assert.Equal(t, "ada", claims.Name)
	assert.Equal(t, []string{"lab", "admins"}, claims.Groups)
	assert.Equal(t, "once", id.Nonce)
	_, err = c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	require.Error(t, err, "a code is good for once")
	token.Expiry = time.Unix(1, 0)
	again, err := c.TokenSource(ctx, token).Token()
	require.NoError(t, err)
	assert.NotEqual(t, token.RefreshToken, again.RefreshToken)
	_, err = c.TokenSource(ctx, token).Token()
	require.Error(t, err, "so is a refresh token")
	w.later(time.Minute)
	_, err = provider.Verifier(&oidc.Config{ClientID: "grafana", Now: w.clock}).Verify(ctx, raw)
	require.ErrorContains(t, err, "expired")
}

// code signs somebody in, and returns what the program would get.
func (w *world) code(at string, form url.Values) (code string) {
	w.t.Helper()
	b := w.browser()
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if code = r.URL.Query().Get("code"); code != "" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	w.open(b, at, form)
	require.NotEmpty(w.t, code)
	return code
}
