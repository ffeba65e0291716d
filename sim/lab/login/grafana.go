package login

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// grafana plays the sign-in of Grafana: its pages show who has signed in, with which role, and nothing else.
type grafana struct {
	oauth map[string]string // its section auth.generic_oauth
	*Client
	mu       sync.Mutex
	sessions map[string]session
}

type session struct {
	Person
	role string
}

// Grafana starts one from its grafana.ini and environment, and returns what it answers.
func Grafana(ini string, env func(string) string, http *http.Client, now func() time.Time) http.Handler {
	sections := sectionsOf(ini)
	o := sections["auth.generic_oauth"]
	for _, key := range []string{"client_secret", "auth_url", "token_url", "api_url"} {
		if v := env("GF_AUTH_GENERIC_OAUTH_" + strings.ToUpper(key)); v != "" && o != nil {
			o[key] = v
		}
	}
	g := &grafana{oauth: o, sessions: map[string]session{}, Client: &Client{
		ID: o["client_id"], Secret: o["client_secret"], Authorize: o["auth_url"], Token: o["token_url"], Userinfo: o["api_url"],
		Redirect: strings.TrimSuffix(sections["server"]["root_url"], "/") + "/login/generic_oauth", Scopes: strings.Fields(o["scopes"]), HTTP: http, Now: now,
	}}
	return g
}

// sectionsOf reads an INI file.
func sectionsOf(text string) map[string]map[string]string {
	out, section := map[string]map[string]string{}, ""
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
		} else if key, value, ok := strings.Cut(line, "="); ok {
			if out[section] == nil {
				out[section] = map[string]string{}
			}
			out[section][strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return out
}

const grafanaSession = "grafana_session"

func (g *grafana) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/health":
		reply(w, http.StatusOK, map[string]string{"database": "ok"})
	case g.oauth["enabled"] != "true" || r.URL.Path == "/login" && r.URL.Query().Has("disableAutoLogin"):
		g.show(w, http.StatusOK, "Grafana's own password is not simulated.")
	case r.URL.Path == "/login/generic_oauth" && r.URL.Query().Has("state"):
		g.end(w, r)
	case r.URL.Path == "/login/generic_oauth":
		g.Begin(w, r)
	default:
		s, ok := g.session(r)
		if !ok {
			http.Redirect(w, r, "/login/generic_oauth", http.StatusFound)
			return
		}
		g.show(w, http.StatusOK, fmt.Sprintf("Signed in as %s, whose role is %s.", s.Text(g.oauth["login_attribute_path"]), s.role))
	}
}

func (g *grafana) end(w http.ResponseWriter, r *http.Request) {
	p, err := g.End(r)
	if err != nil {
		g.show(w, http.StatusUnauthorized, "Login failed: "+err.Error())
		return
	}
	role := roleOf(g.oauth["role_attribute_path"], p)
	if role == "" && g.oauth["role_attribute_strict"] == "true" {
		g.show(w, http.StatusForbidden, "Login failed: IdP did not return a role attribute")
		return
	}
	value := rand.Text()
	g.mu.Lock()
	g.sessions[value] = session{p, role}
	g.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: grafanaSession, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // the lab has pages without TLS too
	http.Redirect(w, r, "/", http.StatusFound)
}

// session returns that of a request. When its token has expired, Grafana asks for another (pkg/services/authn/authnimpl/sync).
func (g *grafana) session(r *http.Request) (session, bool) {
	c, err := r.Cookie(grafanaSession)
	if err != nil {
		return session{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.sessions[c.Value]
	if !ok || g.Now().Before(s.Expires) {
		return s, ok
	}
	if s.Person, err = g.Again(r, s.Person); err != nil {
		delete(g.sessions, c.Value)
		return session{}, false
	}
	g.sessions[c.Value] = s
	return s, true
}

// roleOf evaluates what homelab and others write as an expression of JMESPath: contains(groups[*], 'a') && 'Admin' || …
func roleOf(expression string, p Person) string {
	term := regexp.MustCompile(`contains\((\w+)\[\*\], '([^']*)'\) && '([A-Za-z]+)'`)
	for _, one := range strings.Split(expression, " || ") {
		if m := term.FindStringSubmatch(one); m != nil && Share(p.Groups(m[1]), m[2:3]) {
			return m[3]
		}
	}
	return ""
}

func (*grafana) show(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
	w.WriteHeader(status)
	_ = template.Must(template.New("page").Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Grafana in the lab</title><link rel="icon" href="data:,"></head>
<body><h1>Grafana in the lab</h1><p>{{.}}</p></body></html>`)).Execute(w, text)
}
