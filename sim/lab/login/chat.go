package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Roles plays nginx with a configuration that makes a role of groups, and says both in headers.
func Roles(config string, upstream http.Handler) http.Handler {
	groups := regexp.MustCompile(`(?m)^\s*"~(.*)" (\w+);$`).FindAllStringSubmatch(config, -1)
	headers := regexp.MustCompile(`proxy_set_header (\S+) \$(role|http_x_forwarded_email);`).FindAllStringSubmatch(config, -1)
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
