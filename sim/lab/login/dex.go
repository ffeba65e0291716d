package login

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"
)

// Options are what a Dex is started with.
type Options struct {
	Config []byte              // its config.yaml
	Env    func(string) string // its environment
	State  State               // what an earlier one has stored
	Save   func(State)         // stores what outlives it
	Now    func() time.Time
}

// State is what the real one keeps in objects of its own kinds.
type State struct {
	Key     []byte           `json:"key"` // PKCS #8, with which tokens are signed
	Refresh map[string]grant `json:"refresh"`
}

// config are the keys of Dex's configuration that the lab uses (cmd/dex/config.go).
type config struct {
	Issuer string `json:"issuer"`
	Expiry struct {
		IDTokens string `json:"idTokens"`
	} `json:"expiry"`
	Clients    []program `json:"staticClients"`
	Connectors []source  `json:"connectors"`
	PasswordDB bool      `json:"enablePasswordDB"`
	People     []person  `json:"staticPasswords"`
}

// program is a client: what people sign in to.
type program struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Secret    string   `json:"secret"`
	SecretEnv string   `json:"secretEnv"`
	Public    bool     `json:"public"` // it has no secret
	Redirects []string `json:"redirectURIs"`
}

// source says who somebody is: a connector, or Dex itself.
type source struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

const local = "local" // Dex's own people

type person struct {
	Email    string   `json:"email"`
	Hash     string   `json:"hash"`
	Username string   `json:"username"`
	Name     string   `json:"preferredUsername"`
	ID       string   `json:"userID"`
	Groups   []string `json:"groups"`
}

// grant is what a client gets tokens for.
type grant struct {
	Client    string   `json:"client"`
	Source    string   `json:"source"`
	Scopes    []string `json:"scopes"`
	Nonce     string   `json:"nonce"`
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Email     string   `json:"email"`
	Groups    []string `json:"groups"`
	redirect  string
	state     string
	challenge string // of PKCE, S256; empty: none
}

// dex is one that runs.
type dex struct {
	Options
	config
	key   *rsa.PrivateKey
	lives time.Duration // of a token

	mu      sync.Mutex
	asked   map[string]grant // sign-ins that have begun
	codes   map[string]grant
	refresh map[string]grant
}

// Dex starts one, and returns what it answers.
func Dex(o Options) (http.Handler, error) {
	d := &dex{Options: o, lives: 24 * time.Hour, asked: map[string]grant{}, codes: map[string]grant{}, refresh: o.State.Refresh}
	if err := yaml.Unmarshal(o.Config, &d.config); err != nil {
		return nil, fmt.Errorf("config.yaml: %w", err)
	}
	if text := d.Expiry.IDTokens; text != "" {
		var err error
		if d.lives, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("invalid config value %q for id token expiry: %w", text, err)
		}
	}
	if d.refresh == nil {
		d.refresh = map[string]grant{}
	}
	if d.PasswordDB {
		d.Connectors = append(d.Connectors, source{Type: local, ID: local, Name: "Email"})
	}
	for i, c := range d.Clients {
		if c.SecretEnv != "" {
			d.Clients[i].Secret = o.Env(c.SecretEnv)
		}
	}
	if err := d.keys(); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", d.discovery)
	mux.HandleFunc("GET /keys", d.publicKeys)
	mux.HandleFunc("GET /auth", d.authorize)
	mux.HandleFunc("/auth/{source}/login", d.signIn)
	mux.HandleFunc("POST /token", d.token)
	mux.HandleFunc("GET /userinfo", d.userinfo)
	return mux, nil
}

func (d *dex) keys() error {
	if len(d.State.Key) > 0 {
		key, err := x509.ParsePKCS8PrivateKey(d.State.Key)
		if err != nil {
			return fmt.Errorf("signing key: %w", err)
		}
		d.key, _ = key.(*rsa.PrivateKey)
		return nil
	}
	var err error
	if d.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	if d.State.Key, err = x509.MarshalPKCS8PrivateKey(d.key); err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	d.save()
	return nil
}

// save stores what outlives this Dex; d.mu is held, or nothing else runs yet.
func (d *dex) save() {
	if d.Save != nil {
		d.Save(State{d.State.Key, d.refresh})
	}
}

// authorize begins a sign-in. A client or address that Dex does not know is never sent anything.
func (d *dex) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	i := slices.IndexFunc(d.Clients, func(c program) bool { return c.ID == q.Get("client_id") })
	if i < 0 {
		d.show(w, http.StatusNotFound, page{Problem: fmt.Sprintf("Invalid client_id (%q).", q.Get("client_id"))})
		return
	}
	if !slices.Contains(d.Clients[i].Redirects, q.Get("redirect_uri")) {
		d.show(w, http.StatusBadRequest, page{Problem: fmt.Sprintf("Unregistered redirect_uri (%q).", q.Get("redirect_uri"))})
		return
	}
	g := grant{Client: d.Clients[i].ID, Scopes: strings.Fields(q.Get("scope")), Nonce: q.Get("nonce"), redirect: q.Get("redirect_uri"), state: q.Get("state"), challenge: q.Get("code_challenge")}
	if q.Get("response_type") != "code" || !slices.Contains(g.Scopes, "openid") || g.challenge != "" && q.Get("code_challenge_method") != "S256" {
		d.back(w, r, g, url.Values{"error": {"invalid_request"}})
		return
	}
	id := rand.Text()
	d.mu.Lock()
	d.asked[id] = g
	d.mu.Unlock()
	if len(d.Connectors) == 1 {
		http.Redirect(w, r, "/auth/"+d.Connectors[0].ID+"/login?state="+id, http.StatusFound)
		return
	}
	p := page{Title: "Log in to " + d.Clients[i].Name}
	for _, s := range d.Connectors {
		p.Sources = append(p.Sources, link{"Log in with " + s.Name, "/auth/" + s.ID + "/login?state=" + id})
	}
	d.show(w, http.StatusOK, p)
}

// back sends the browser to the client.
func (d *dex) back(w http.ResponseWriter, r *http.Request, g grant, answer url.Values) {
	answer.Set("state", g.state)
	separator := "?"
	if strings.Contains(g.redirect, "?") {
		separator = "&"
	}
	http.Redirect(w, r, g.redirect+separator+answer.Encode(), http.StatusSeeOther) //nolint:gosec // one of the client's registered addresses
}

// providerCookie has who a provider remembers.
const providerCookie = "lab-provider"

// signIn asks who somebody is, and sends the browser back with a code.
func (d *dex) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	id := r.FormValue("state")
	d.mu.Lock()
	g, ok := d.asked[id]
	d.mu.Unlock()
	i := slices.IndexFunc(d.Connectors, func(s source) bool { return s.ID == r.PathValue("source") })
	if !ok || i < 0 {
		d.show(w, http.StatusBadRequest, page{Problem: "User session error: begin again at the program that you want to use."})
		return
	}
	from := d.Connectors[i]
	g.Source = from.ID
	p := page{Title: "Log in", State: id, Source: from, Local: from.Type == local, Remembers: from.Type != local && from.Type != "ldap"}
	switch c, err := r.Cookie(providerCookie); {
	case r.Method == http.MethodPost:
		p.Problem = d.identify(&g, r.FormValue("login"), r.FormValue("password"), r.FormValue("groups"))
	case p.Remembers && err == nil:
		v, _ := url.ParseQuery(c.Value)
		p.Problem = d.identify(&g, v.Get("login"), "", v.Get("groups"))
	default:
		d.show(w, http.StatusOK, p)
		return
	}
	if p.Problem != "" {
		d.show(w, http.StatusUnauthorized, p)
		return
	}
	if p.Remembers && r.Method == http.MethodPost {
		v := url.Values{"login": {r.FormValue("login")}, "groups": {r.FormValue("groups")}}
		http.SetCookie(w, &http.Cookie{Name: providerCookie, Value: v.Encode(), Path: "/auth/" + from.ID, HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // the lab has pages without TLS too
	}
	code := rand.Text()
	d.mu.Lock()
	delete(d.asked, id)
	d.codes[code] = g
	d.mu.Unlock()
	d.back(w, r, g, url.Values{"code": {code}})
}

// identify fills in who somebody is, or says why not.
func (d *dex) identify(g *grant, login, password, groups string) string {
	if g.Source == local {
		p := d.person(login)
		if p == nil || bcrypt.CompareHashAndPassword([]byte(p.Hash), []byte(password)) != nil {
			return "Invalid Email Address and password."
		}
		g.ID, g.Name, g.Email, g.Groups = p.ID, p.Name, p.Email, p.Groups
		return ""
	}
	if login = strings.TrimSpace(login); login == "" {
		return "A name is missing."
	}
	g.ID, g.Name, g.Email = login, login, login+"@lab.example"
	g.Groups = strings.FieldsFunc(groups, func(r rune) bool { return r == ',' || r == ' ' })
	return ""
}

func (d *dex) person(email string) *person {
	i := slices.IndexFunc(d.People, func(p person) bool { return strings.EqualFold(p.Email, email) })
	if i < 0 {
		return nil
	}
	return &d.People[i]
}

type link struct{ Text, To string }

type page struct {
	Title, Problem, State string
	Source                source
	Local, Remembers      bool
	Sources               []link
}

const pageText = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dex</title><link rel="icon" href="data:,"></head><body>
{{with .Title}}<h1>{{.}}</h1>{{end}}{{with .Problem}}<p role="alert">{{.}}</p>{{end}}
{{range .Sources}}<p><a href="{{.To}}">{{.Text}}</a></p>{{end}}
{{if .State}}<form method="post" action="/auth/{{.Source.ID}}/login"><input type="hidden" name="state" value="{{.State}}">
<p><label>{{if .Local}}Email Address{{else}}Name{{end}} <input name="login" autofocus required></label></p>
<p><label>Password <input name="password" type="password"{{if .Local}} required{{end}}></label></p>
{{if not .Local}}<p><label>Groups <input name="groups"></label></p><p>This page of the lab stands for {{.Source.Name}}: it takes any name and password, and the groups that you write.</p>{{end}}
<p><button>Login</button></p></form>{{end}}
<p>The lab's stand-in for Dex 2.45.</p></body></html>`

func (d *dex) show(w http.ResponseWriter, status int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = template.Must(template.New("page").Parse(pageText)).Execute(w, p)
}
