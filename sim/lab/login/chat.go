package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
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
func Gate(args []string, env func(string) string, http *http.Client, now func() time.Time, upstream http.Handler) (http.Handler, error) {
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
	g := &gate{allowed: slices.Concat(allowed...), refresh: refresh, upstream: upstream, sessions: map[string]visit{}, Client: &Client{
		ID: one("client-id"), Secret: env("OAUTH2_PROXY_CLIENT_SECRET"), Redirect: one("redirect-url"), Authorize: one("login-url"), Token: one("redeem-url"),
		Userinfo: strings.TrimSuffix(one("redeem-url"), "/token") + "/userinfo", Scopes: strings.Fields(one("scope")), HTTP: http, Now: now,
	}}
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
	nameOfGate   = "X-Forwarded-Preferred-Username"
	groupsOfGate = "X-Forwarded-Groups"
)

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(nameOfGate)
	r.Header.Del(groupsOfGate)
	for _, path := range g.open {
		if r.Method == http.MethodGet && path.MatchString(r.URL.Path) {
			g.upstream.ServeHTTP(w, r)
			return
		}
	}
	switch r.URL.Path {
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
	case !Share(p.Groups("groups"), g.allowed):
		http.Error(w, "403 Forbidden", http.StatusForbidden)
	default:
		r.Header.Set(nameOfGate, p.Text("preferred_username"))
		r.Header.Set(groupsOfGate, strings.Join(p.Groups("groups"), ","))
		g.upstream.ServeHTTP(w, r)
	}
}

func (g *gate) end(w http.ResponseWriter, r *http.Request) {
	p, err := g.End(r)
	switch {
	case err != nil:
		http.Error(w, "500 Internal Server Error: "+err.Error(), http.StatusInternalServerError)
		return
	case !Share(p.Groups("groups"), g.allowed):
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

// Roles plays nginx with a configuration that makes a role of groups, and says both in headers.
func Roles(config string, upstream http.Handler) http.Handler {
	groups := regexp.MustCompile(`(?m)^\s*"~(.*)" (\w+);$`).FindAllStringSubmatch(config, -1)
	headers := regexp.MustCompile(`proxy_set_header (\S+) \$(role|http_x_forwarded_preferred_username);`).FindAllStringSubmatch(config, -1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role := "user"
		for _, m := range groups {
			quoted := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(m[1])
			if is, err := regexp.MatchString(quoted, r.Header.Get(groupsOfGate)); err == nil && is {
				role = m[2]
				break
			}
		}
		for _, m := range headers {
			value := map[string]string{"role": role}[m[2]]
			if value == "" {
				value = r.Header.Get(nameOfGate)
			}
			r.Header.Set(m[1], value)
		}
		upstream.ServeHTTP(w, r)
	})
}

// chat plays Open WebUI behind a proxy that says who somebody is: a page with who that is and the models that its
// key has, and questions to them.
type chat struct {
	env  func(string) string
	http *http.Client
	now  func() time.Time

	mu       sync.Mutex
	sessions map[string]talker
}

type talker struct {
	name, role string
	until      time.Time
}

// Chat starts one from its environment.
func Chat(env func(string) string, http *http.Client, now func() time.Time) http.Handler {
	return &chat{env: env, http: http, now: now, sessions: map[string]talker{}}
}

func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		reply(w, http.StatusOK, map[string]bool{"status": true})
		return
	}
	name := strings.ToLower(r.Header.Get(c.env("WEBUI_AUTH_TRUSTED_EMAIL_HEADER")))
	if name == "" {
		reply(w, http.StatusBadRequest, map[string]string{"detail": "Your provider has not provided a trusted header. Please contact your administrator for assistance."})
		return
	}
	who, ok := c.session(r)
	if r.URL.Path == "/api/chat/completions" {
		switch {
		case !ok:
			reply(w, http.StatusUnauthorized, map[string]string{"detail": "Not authenticated"})
		case who.name != name:
			reply(w, http.StatusUnauthorized, map[string]string{"detail": "User mismatch. Please sign in again."})
		default:
			c.ask(w, r)
		}
		return
	}
	if !ok || who.name != name {
		who = c.signIn(w, r, name)
	}
	models, err := c.models(r.Context())
	if err != nil {
		models = []string{"none, since the gateway says " + err.Error()}
	}
	c.show(w, fmt.Sprintf("Signed in as %s, whose role is %s. Models: %s.", who.name, who.role, strings.Join(models, ", ")))
}

func (c *chat) session(r *http.Request) (talker, bool) {
	cookie, err := r.Cookie("token")
	if err != nil {
		return talker{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.sessions[cookie.Value]
	return t, ok && c.now().Before(t.until)
}

// signIn is what the page asks for when it has no session (routers/auths.py, signin): nobody types anything.
func (c *chat) signIn(w http.ResponseWriter, r *http.Request, name string) talker {
	lives, err := time.ParseDuration(c.env("JWT_EXPIRES_IN"))
	if err != nil {
		lives = 28 * 24 * time.Hour // 4w
	}
	t, value := talker{name, r.Header.Get(c.env("WEBUI_AUTH_TRUSTED_ROLE_HEADER")), c.now().Add(lives)}, rand.Text()
	c.mu.Lock()
	c.sessions[value] = t
	c.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: "token", Value: value, Path: "/", SameSite: http.SameSiteLaxMode}) //nolint:gosec // its page reads it
	return t
}

func (c *chat) gateway(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, method, c.env("OPENAI_API_BASE_URL")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+c.env("OPENAI_API_KEY"))
	q.Header.Set("Content-Type", "application/json")
	return c.http.Do(q)
}

func (c *chat) models(ctx context.Context) ([]string, error) {
	res, err := c.gateway(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP %d", res.StatusCode)
	}
	err = json.NewDecoder(res.Body).Decode(&list)
	var out []string
	for _, m := range list.Data {
		out = append(out, m.ID)
	}
	return out, err
}

func (c *chat) ask(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"detail": err.Error()})
		return
	}
	res, err := c.gateway(r.Context(), http.MethodPost, "/chat/completions", body)
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"detail": "Open WebUI: Server Connection Error"})
		return
	}
	defer func() { _ = res.Body.Close() }()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

func (*chat) show(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
	_ = template.Must(template.New("page").Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Open WebUI in the lab</title><link rel="icon" href="data:,"></head>
<body><h1>Open WebUI in the lab</h1><p>{{.}}</p></body></html>`)).Execute(w, text)
}
