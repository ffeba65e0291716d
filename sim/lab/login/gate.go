package login

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// gate plays OAuth2 Proxy (oauth2-proxy/oauth2-proxy, v7.15) with OpenID Connect.
type gate struct {
	*Client
	allowed  []string // groups
	refresh  time.Duration
	open     []*regexp.Regexp // GET paths that need no sign-in
	token    bool             // upstream gets the ID token
	name     string           // claims of a person's name and groups
	groups   string
	upstream http.Handler

	mu       sync.Mutex
	sessions map[string]visit
}

type visit struct {
	Person
	seen time.Time // when Dex said so
}

// Gate starts one from its arguments and environment. What it lets in gets to upstream, with who it is. The real
// one reads the ID token, which says the same as Userinfo.
func Gate(ctx context.Context, args []string, env func(string) string, http *http.Client, now func() time.Time, upstream http.Handler) (http.Handler, error) {
	flags := map[string][]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = append(flags[name], value)
	}
	one := func(name string) string { return strings.Join(flags[name], "") }
	if one("provider") != "oidc" || len(env("OAUTH2_PROXY_COOKIE_SECRET")) != 32 {
		return nil, errors.New("OAuth2 Proxy: it wants provider=oidc and a cookie secret of 32 bytes")
	}
	refresh, err := time.ParseDuration(one("cookie-refresh"))
	if err != nil {
		return nil, fmt.Errorf("cookie-refresh: %w", err)
	}
	allowed, err := csv.NewReader(strings.NewReader(strings.Join(flags["allowed-group"], "\n"))).ReadAll() // each is a list
	if err != nil {
		return nil, fmt.Errorf("allowed-group: %w", err)
	}
	g := &gate{allowed: slices.Concat(allowed...), refresh: refresh, upstream: upstream, token: one("pass-authorization-header") == "true", name: one("oidc-email-claim"), groups: one("oidc-groups-claim"), sessions: map[string]visit{}, Client: &Client{
		ID: one("client-id"), Secret: env("OAUTH2_PROXY_CLIENT_SECRET"), Redirect: one("redirect-url"), Authorize: one("login-url"), Token: one("redeem-url"),
		Userinfo: strings.TrimSuffix(one("redeem-url"), "/token") + "/userinfo", Scopes: strings.Fields(one("scope")), HTTP: http, Now: now,
	}}
	if one("skip-oidc-discovery") != "true" {
		if err := g.discover(ctx, one("oidc-issuer-url")); err != nil {
			return nil, err
		}
	}
	for _, route := range flags["skip-auth-route"] {
		path, err := regexp.Compile(strings.TrimPrefix(route, "GET="))
		if err != nil {
			return nil, fmt.Errorf("skip-auth-route: %w", err)
		}
		g.open = append(g.open, path)
	}
	return g, nil
}

const gateSession = "_oauth2_proxy"

// Headers that OAuth2 Proxy sets, and takes from nobody.
const (
	nameOfGate   = "X-Forwarded-Email"
	groupsOfGate = "X-Forwarded-Groups"
)

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(nameOfGate)
	r.Header.Del(groupsOfGate)
	if g.token {
		r.Header.Del("Authorization")
	}
	for _, path := range g.open {
		if r.Method == http.MethodGet && path.MatchString(r.URL.Path) {
			g.upstream.ServeHTTP(w, r)
			return
		}
	}
	switch r.URL.Path {
	case "/ping":
		_, _ = w.Write([]byte("OK"))
		return
	case "/oauth2/callback":
		g.end(w, r)
		return
	case "/oauth2/sign_out":
		if c, err := r.Cookie(gateSession); err == nil {
			g.mu.Lock()
			delete(g.sessions, c.Value)
			g.mu.Unlock()
		}
		http.Redirect(w, r, "/", http.StatusFound)
		return
	}
	p, ok := g.session(r)
	switch {
	case !ok && strings.Contains(r.Header.Get("Accept"), "application/json"):
		http.Error(w, "{}", http.StatusUnauthorized)
	case !ok:
		g.Begin(w, r)
	case !Share(p.Groups(g.groups), g.allowed):
		http.Error(w, "403 Forbidden", http.StatusForbidden)
	default:
		r.Header.Set(nameOfGate, p.Text(g.name))
		r.Header.Set(groupsOfGate, strings.Join(p.Groups(g.groups), ","))
		if g.token {
			r.Header.Set("Authorization", "Bearer "+p.ID)
		}
		g.upstream.ServeHTTP(w, r)
	}
}

func (g *gate) end(w http.ResponseWriter, r *http.Request) {
	p, err := g.End(r)
	switch {
	case err != nil:
		http.Error(w, "500 Internal Server Error: "+err.Error(), http.StatusInternalServerError)
		return
	case !Share(p.Groups(g.groups), g.allowed):
		http.Error(w, "403 Forbidden", http.StatusForbidden)
		return
	}
	value := rand.Text()
	g.mu.Lock()
	g.sessions[value] = visit{p, g.Now()}
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: gateSession, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // the lab has pages without TLS too
	http.Redirect(w, r, "/", http.StatusFound)
}

// session asks Dex again when the refresh time is over (pkg/middleware/stored_session.go).
func (g *gate) session(r *http.Request) (Person, bool) {
	c, err := r.Cookie(gateSession)
	if err != nil {
		return Person{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.sessions[c.Value]
	if !ok || g.Now().Before(v.seen.Add(g.refresh)) {
		return v.Person, ok
	}
	if v.Person, err = g.Again(r, v.Person); err != nil {
		delete(g.sessions, c.Value)
		return Person{}, false
	}
	v.seen = g.Now()
	g.sessions[c.Value] = v
	return v.Person, true
}
