package login

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Rancher plays the sign-in of Rancher 2.15 by its provider genericoidc: what its API and its pages do for that, and
// who signs in then. Its local accounts are not simulated.
type Rancher struct {
	Config func(context.Context) ([]byte, error)                                        // the AuthConfig genericoidc, as JSON
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error) // of the cluster
	Admins func(context.Context) ([]string, error)                                      // principals with the global role admin
	HTTP   *http.Client                                                                 // reaches the provider
	Now    func() time.Time

	mu       sync.Mutex
	sessions map[string]rancherUser
}

type rancherUser struct {
	name   string
	groups []string // principals; they stay as they were at the sign-in
	until  time.Time
}

// authConfig has the fields of OIDCConfig (pkg/apis/management.cattle.io/v3/authn_types.go). The real one ignores
// others; here they are an error, since they would have no effect.
type authConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   any    `json:"metadata"`
	Status     any    `json:"status"`

	Type       string   `json:"type"`
	Enabled    bool     `json:"enabled"`
	AccessMode string   `json:"accessMode"`
	Allowed    []string `json:"allowedPrincipalIds"`
	LogoutAll  bool     `json:"logoutAllSupported"`

	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	RancherURL   string `json:"rancherUrl"`
	APIHost      string `json:"rancherApiHost"`
	Issuer       string `json:"issuer"`
	Authorize    string `json:"authEndpoint"`
	Token        string `json:"tokenEndpoint"`
	Userinfo     string `json:"userInfoEndpoint"`
	Keys         string `json:"jwksUrl"`
	GroupSearch  bool   `json:"groupSearchEnabled"`
	GroupsClaim  string `json:"groupsClaim"`
	Scope        string `json:"scope"`
	PKCE         string `json:"pkceMethod"`
}

const (
	rancherProvider = "genericoidc"
	rancherSession  = "R_SESS"
	rancherVerifier = "R_PKCE_VERIFIER"
	rancherNonce    = "rc_nonce"
	rancherSigned   = 16 * time.Hour // auth-user-session-ttl-minutes
)

// Handler answers as Rancher.
func (r *Rancher) Handler() http.Handler {
	r.sessions = map[string]rancherUser{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.HandleFunc("GET /v1-public/authproviders", r.providers)
	mux.HandleFunc("GET /v1-oidc/{provider}", r.toProvider)
	mux.HandleFunc("GET /dashboard/auth/login", r.choose)
	mux.HandleFunc("GET /verify-auth", r.verify)
	mux.HandleFunc("GET /", r.home)
	return mux
}

// config is the provider's; nil if it is disabled.
func (r *Rancher) config(ctx context.Context) (*authConfig, error) {
	text, err := r.Config(ctx)
	if err != nil {
		return nil, err
	}
	c := &authConfig{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("AuthConfig %s: %w", rancherProvider, err)
	}
	if !c.Enabled {
		return nil, nil
	}
	// It is read by the prefix of its namespace, and whatever key it has is the secret (pkg/auth/providers/common/password.go).
	if namespace, name, ok := strings.Cut(c.ClientSecret, ":"); ok && namespace == "cattle-global-data" {
		data, err := r.Secret(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		if len(data) != 1 {
			return nil, fmt.Errorf("secret %s has %d keys, of which Rancher takes any", c.ClientSecret, len(data))
		}
		for _, value := range data {
			c.ClientSecret = string(value)
		}
	}
	return c, nil
}

func (r *Rancher) providers(w http.ResponseWriter, q *http.Request) {
	list := []any{map[string]any{"id": "local", "type": "localProvider"}}
	c, err := r.config(q.Context())
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"message": err.Error()})
		return
	}
	if c != nil {
		list = append(list, map[string]any{"id": rancherProvider, "type": strings.ReplaceAll(c.Type, "Config", "Provider"), "redirectUrl": c.redirect(), "scopes": c.Scope})
	}
	reply(w, http.StatusOK, map[string]any{"type": "collection", "data": list})
}

// redirect is where the pages send a browser (getRedirectURL in pkg/auth/providers/oidc/oidc_provider.go).
func (c *authConfig) redirect() string {
	if c.APIHost != "" {
		return c.APIHost + "/v1-oidc/" + rancherProvider
	}
	return c.Authorize + "?" + url.Values{"client_id": {c.ClientID}, "response_type": {"code"}, "redirect_uri": {c.RancherURL}}.Encode()
}

// choose is the page of the sign-in; with a provider, what its button does (shell/store/auth.js of the dashboard).
func (r *Rancher) choose(w http.ResponseWriter, q *http.Request) {
	c, err := r.config(q.Context())
	switch {
	case err != nil:
		r.show(w, http.StatusInternalServerError, err.Error(), "")
	case c == nil:
		r.show(w, http.StatusOK, "Rancher's own password is not simulated.", "")
	case q.URL.Query().Get("provider") != rancherProvider:
		r.show(w, http.StatusOK, "Use a local user, or:", "/dashboard/auth/login?provider="+rancherProvider)
	default:
		nonce := rand.Text()
		r.cookie(w, rancherNonce, nonce)
		at, err := url.Parse(c.redirect())
		if err != nil {
			r.show(w, http.StatusInternalServerError, err.Error(), "")
			return
		}
		values := at.Query()
		values.Set("scope", c.Scope)
		values.Set("state", nonce)
		at.RawQuery = values.Encode()
		http.Redirect(w, q, at.String(), http.StatusFound) //nolint:gosec // an address of its configuration
	}
}

// toProvider sends a browser to the provider (pkg/auth/handler/handler.go).
func (r *Rancher) toProvider(w http.ResponseWriter, q *http.Request) {
	c, err := r.config(q.Context())
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case c == nil || q.PathValue("provider") != rancherProvider:
		http.Error(w, "Provider is disabled", http.StatusNotFound)
		return
	case c.PKCE != "" && c.PKCE != "S256":
		http.Error(w, "Unsupported PKCE method. Supported methods: S256", http.StatusBadRequest)
		return
	}
	values := url.Values{"client_id": {c.ClientID}, "response_type": {"code"}, "redirect_uri": {c.RancherURL},
		"state": {q.URL.Query().Get("state")}, "scope": {q.URL.Query().Get("scope")}}
	if c.PKCE != "" {
		verifier := oauth2.GenerateVerifier()
		r.cookie(w, rancherVerifier, verifier)
		values.Set("code_challenge", oauth2.S256ChallengeFromVerifier(verifier))
		values.Set("code_challenge_method", c.PKCE)
	}
	http.Redirect(w, q, c.Authorize+"?"+values.Encode(), http.StatusFound) //nolint:gosec // an address of its configuration
}

// verify is the page to which the provider sends browsers back: it posts the code to /v1-public/login.
func (r *Rancher) verify(w http.ResponseWriter, q *http.Request) {
	nonce, err := q.Cookie(rancherNonce)
	if err != nil || nonce.Value != q.URL.Query().Get("state") {
		r.show(w, http.StatusBadRequest, "The nonce is not that of this browser: begin again.", "")
		return
	}
	who, status, err := r.login(q, q.URL.Query().Get("code"))
	if err != nil {
		r.show(w, status, "Logging in failed: "+err.Error(), "")
		return
	}
	key := rand.Text()
	r.mu.Lock()
	r.sessions[key] = who
	r.mu.Unlock()
	r.cookie(w, rancherSession, key)
	http.Redirect(w, q, "/", http.StatusFound)
}

// login asks the provider who somebody is (getUserInfoFromAuthCode in pkg/auth/providers/oidc/oidc_provider.go), with
// the library that Rancher uses.
func (r *Rancher) login(q *http.Request, code string) (who rancherUser, status int, err error) {
	ctx := oidc.ClientContext(q.Context(), r.HTTP)
	c, err := r.config(ctx)
	if err != nil {
		return who, http.StatusInternalServerError, err
	}
	if c == nil || c.Type != "genericOIDCConfig" {
		return who, http.StatusUnprocessableEntity, errors.New("the provider is disabled")
	}
	p := (&oidc.ProviderConfig{IssuerURL: c.Issuer, AuthURL: c.Authorize, TokenURL: c.Token, UserInfoURL: c.Userinfo, JWKSURL: c.Keys}).NewProvider(ctx)
	to := oauth2.Config{ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: c.RancherURL, Scopes: strings.Fields(c.Scope)}
	var opts []oauth2.AuthCodeOption
	if v, err := q.Cookie(rancherVerifier); err == nil && c.PKCE != "" {
		opts = append(opts, oauth2.VerifierOption(v.Value))
	}
	token, err := to.Exchange(ctx, code, opts...)
	if err != nil {
		return who, http.StatusInternalServerError, fmt.Errorf("failed exchanging token: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	if _, err := p.Verifier(&oidc.Config{ClientID: c.ClientID, Now: r.Now}).Verify(ctx, raw); err != nil {
		return who, http.StatusInternalServerError, fmt.Errorf("failed to verify ID token: %w", err)
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return who, http.StatusInternalServerError, err
	}
	var claims Person
	if err := info.Claims(&claims.Claims); err != nil {
		return who, http.StatusInternalServerError, err
	}
	who = rancherUser{name: claims.Text("name"), until: r.Now().Add(rancherSigned)}
	for _, g := range claims.Groups(cmp.Or(c.GroupsClaim, "groups")) {
		who.groups = append(who.groups, rancherProvider+"_group://"+g)
	}
	return who, http.StatusUnauthorized, c.access(append(slices.Clone(who.groups), rancherProvider+"_user://"+info.Subject))
}

// access says whether one of a person's principals may sign in (CheckAccess in pkg/auth/providers/common/usermanager.go).
// Nobody here is a member of a project or cluster, who could sign in too if the mode is restricted.
func (c *authConfig) access(principals []string) error {
	switch c.AccessMode {
	case "unrestricted", "":
		return nil
	case "restricted", "required":
		if Share(principals, c.Allowed) {
			return nil
		}
		return errors.New("unauthorized")
	}
	return fmt.Errorf("unsupported accessMode: %s", c.AccessMode)
}

func (r *Rancher) home(w http.ResponseWriter, q *http.Request) {
	cookie, err := q.Cookie(rancherSession)
	var who rancherUser
	if err == nil {
		r.mu.Lock()
		who = r.sessions[cookie.Value]
		r.mu.Unlock()
	}
	c, err := r.config(q.Context())
	if err != nil {
		r.show(w, http.StatusInternalServerError, err.Error(), "")
		return
	}
	if c == nil { // the users who came by a provider end with it (pkg/auth/cleanup)
		r.mu.Lock()
		clear(r.sessions)
		r.mu.Unlock()
		who = rancherUser{}
	}
	if r.Now().After(who.until) {
		http.Redirect(w, q, "/dashboard/auth/login", http.StatusFound)
		return
	}
	admins, err := r.Admins(q.Context())
	if err != nil {
		r.show(w, http.StatusInternalServerError, err.Error(), "")
		return
	}
	role := "a standard user"
	if Share(who.groups, admins) {
		role = "an administrator"
	}
	r.show(w, http.StatusOK, fmt.Sprintf("Signed in as %s, who is %s.", who.name, role), "")
}

func (*Rancher) cookie(w http.ResponseWriter, name, value string) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
}

func (*Rancher) show(w http.ResponseWriter, status int, text, button string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
	w.WriteHeader(status)
	_ = template.Must(template.New("page").Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Rancher in the lab</title><link rel="icon" href="data:,"></head>
<body><h1>Rancher in the lab</h1><p>{{.Text}}</p>{{with .Button}}<p><a href="{{.}}">Log in with Generic OIDC</a></p>{{end}}</body></html>`)).Execute(w, map[string]string{"Text": text, "Button": button})
}
