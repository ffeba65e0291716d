package hub

import (
	"crypto/subtle"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// loginConfig is what the chart's hub.config says about who may log in.
type loginConfig struct {
	JupyterHub struct {
		Class string `json:"authenticator_class"`
	} `json:"JupyterHub"`
	Authenticator struct {
		AllowAll bool     `json:"allow_all"`
		Allowed  []string `json:"allowed_users"`
		Admins   []string `json:"admin_users"`
		Blocked  []string `json:"blocked_users"`

		AuthState  bool `json:"enable_auth_state"`
		RefreshAge int  `json:"auth_refresh_age"` // in seconds
	} `json:"Authenticator"`
	OAuth   oauthConfig `json:"GenericOAuthenticator"`
	Spawner struct {
		Container      map[string]any           `json:"extra_container_config"`
		GroupOverrides map[string]groupOverride `json:"group_overrides"`
	} `json:"KubeSpawner"`
}

// Classes of authenticators whose users the hub itself knows.
const (
	sharedPassword = "shared-password"
	native         = "native"
)

// sessionCookie holds a session of the pages.
const sessionCookie = "jupyterhub-lab-session"

// plainName are the names that need no slug to be a part of a pod's.
var plainName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// admit says why a user may not log in, or "". Of one password for all, the admins have another
// (jupyterhub/authenticators/shared.py).
func (h *hub) admit(name, password string) (problem string) {
	config := h.values.Hub.Config
	who, isAdmin := config.Authenticator, slices.Contains(config.Authenticator.Admins, name)
	if !plainName.MatchString(name) {
		return "A name in the lab has lower-case letters, digits and hyphens, 40 at most."
	}
	if config.JupyterHub.Class == sharedPassword {
		want := h.passwords.user
		if isAdmin {
			want = h.passwords.admin
		}
		if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 0 {
			return "Invalid username or password"
		}
	}
	if slices.Contains(who.Blocked, name) || h.knowsUsers() && !who.AllowAll && !isAdmin && !slices.Contains(who.Allowed, name) {
		return name + " may not log in: hub.auth in cluster.yaml does not allow it."
	}
	return ""
}

// knowsUsers reports whether the configuration alone says who may log in; elsewhere it is a
// provider's groups.
func (h *hub) knowsUsers() bool {
	return slices.Contains([]string{sharedPassword, native}, h.values.Hub.Config.JupyterHub.Class)
}

// session returns the user of a request's cookie.
func (h *hub) session(r *http.Request) (user string, ok bool) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.sessions[c.Value]
	if !ok {
		return "", false
	}
	if !h.known(r, s) {
		delete(h.sessions, c.Value)
		return "", false
	}
	return s.user, true
}

// cookie is a session's, as long as the browser runs; of "" it ends one.
func cookie(value string) *http.Cookie {
	c := &http.Cookie{Name: sessionCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode} //nolint:gosec // hub:open forwards it to this machine without TLS
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// loginPage is the form to log in with.
type loginPage struct {
	view
	Name, Problem string
	Elsewhere     bool     // at the provider
	Password      bool     // one for all; otherwise any will do
	Names         []string // who may log in; none: all
	Admins        []string
	Class         string
}

func (h pages) showLogin(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.session(r); ok {
		http.Redirect(w, r, "/hub/home", http.StatusSeeOther)
		return
	}
	if h.oauth != nil {
		h.oauth.Begin(w, r)
		return
	}
	h.askLogin(w, http.StatusOK, "", "")
}

func (h pages) askLogin(w http.ResponseWriter, status int, name, problem string) {
	config := h.values.Hub.Config
	p := loginPage{view: view{Title: "Log in"}, Elsewhere: h.oauth != nil, Name: name, Problem: problem, Password: config.JupyterHub.Class == sharedPassword,
		Admins: config.Authenticator.Admins, Class: config.JupyterHub.Class}
	if h.knowsUsers() && !config.Authenticator.AllowAll {
		p.Names = slices.Concat(config.Authenticator.Admins, config.Authenticator.Allowed)
	}
	h.show(w, status, "login", p)
}

func (h pages) login(w http.ResponseWriter, r *http.Request) {
	if h.oauth != nil {
		h.askLogin(w, http.StatusForbidden, "", "The hub takes no passwords: log in with the provider.")
		return
	}
	name := strings.ToLower(strings.TrimSpace(r.FormValue("username"))) // Authenticator.normalize_username
	if problem := h.admit(name, r.FormValue("password")); problem != "" {
		h.askLogin(w, http.StatusForbidden, name, problem)
		return
	}
	h.enter(w, r, &session{user: name})
}

func (h pages) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(sessionCookie); err == nil {
		h.mu.Lock()
		delete(h.sessions, c.Value)
		h.mu.Unlock()
	}
	http.SetCookie(w, cookie(""))
	if h.oauth != nil { // which would log in at once
		h.askLogin(w, http.StatusOK, "", "")
		return
	}
	http.Redirect(w, r, "/hub/login", http.StatusSeeOther)
}
