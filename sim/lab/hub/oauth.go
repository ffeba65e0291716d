package hub

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/lab/login"
)

// genericOAuth is the authenticator of an OpenID Connect provider.
const genericOAuth = "generic-oauth"

// oauthConfig is what the chart's hub.config says about such a provider (oauthenticator 17).
type oauthConfig struct {
	ID        string   `json:"client_id"`
	Secret    string   `json:"client_secret"`
	Callback  string   `json:"oauth_callback_url"`
	Authorize string   `json:"authorize_url"`
	Token     string   `json:"token_url"`
	Userinfo  string   `json:"userdata_url"`
	NameClaim string   `json:"username_claim"`
	Scopes    []string `json:"scope"`
	GroupsKey string   `json:"auth_state_groups_key"`
	Allowed   []string `json:"allowed_groups"`
	Admins    []string `json:"admin_groups"`
}

// inside matches Services of the cluster, which the lab can ask. Other providers exist only if something is outside.
var inside = regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+:[0-9]+$`)

// provider is who people sign in with; nil: nobody in the lab.
func (h *hub) provider() *login.Client {
	o := h.values.Hub.Config.OAuth
	u, err := url.Parse(o.Token)
	reached := err == nil && (u.Scheme == "http" && inside.MatchString(u.Host) || u.Host != "" && h.Traffic.Outside != nil)
	if !reached || h.values.Hub.Config.JupyterHub.Class != genericOAuth {
		return nil
	}
	return &login.Client{ID: o.ID, Secret: o.Secret, Redirect: o.Callback, Authorize: o.Authorize, Token: o.Token, Userinfo: o.Userinfo, Scopes: o.Scopes, HTTP: h.web, Now: h.now}
}

// session is of somebody who has logged in.
type session struct {
	user    string
	person  *login.Person // from the provider; nil: with a password
	checked time.Time     // when the provider knew the person
}

// refused says why somebody whom the provider knows may not use the hub, or "".
func (h *hub) refused(p login.Person) (name, problem string) {
	o, who := h.values.Hub.Config.OAuth, h.values.Hub.Config.Authenticator
	name = strings.ToLower(p.Text(o.NameClaim)) // Authenticator.normalize_username
	groups := h.groupsOf(p)
	switch {
	case !plainName.MatchString(name):
		return name, "A name in the lab has lower-case letters, digits and hyphens, 40 at most."
	case slices.Contains(who.Blocked, name):
	case who.AllowAll || slices.Contains(who.Admins, name) || slices.Contains(who.Allowed, name) || login.Share(groups, slices.Concat(o.Allowed, o.Admins)):
		return name, ""
	}
	return name, name + " may not log in: no group of theirs may use the hub."
}

func (h *hub) groupsOf(p login.Person) []string {
	return p.Groups(strings.TrimPrefix(h.values.Hub.Config.OAuth.GroupsKey, "oauth_user."))
}

// endLogin takes somebody back from the provider.
func (h pages) endLogin(w http.ResponseWriter, r *http.Request) {
	if h.oauth == nil {
		http.NotFound(w, r)
		return
	}
	p, err := h.oauth.End(r)
	if err != nil {
		h.askLogin(w, http.StatusBadRequest, "", err.Error())
		return
	}
	name, problem := h.refused(p)
	if problem != "" {
		h.askLogin(w, http.StatusForbidden, name, problem)
		return
	}
	h.enter(w, r, &session{user: name, person: &p, checked: h.now()})
}

// enter begins a session.
func (h pages) enter(w http.ResponseWriter, r *http.Request, s *session) {
	value := rand.Text()
	h.mu.Lock()
	h.sessions[value] = s
	if h.users[s.user] == nil {
		h.users[s.user] = &hubUser{name: s.user}
	}
	if s.person != nil {
		h.users[s.user].groups = h.groupsOf(*s.person)
	}
	h.mu.Unlock()
	http.SetCookie(w, cookie(value))
	http.Redirect(w, r, "/hub/home", http.StatusSeeOther)
}

// known asks the provider again about somebody, after the authenticator's auth_refresh_age: first with the token,
// and when that has expired, for another one. h.mu is held.
func (h *hub) known(r *http.Request, s *session) bool {
	who := h.values.Hub.Config.Authenticator
	age := time.Duration(who.RefreshAge) * time.Second
	if s.person == nil || !who.AuthState || h.now().Before(s.checked.Add(age)) {
		return true
	}
	p, err := h.oauth.Who(r, *s.person)
	if err != nil {
		p, err = h.oauth.Again(r, *s.person)
	}
	if err != nil {
		return false
	}
	s.person, s.checked = &p, h.now()
	if u := h.users[s.user]; u != nil {
		u.groups = h.groupsOf(p)
	}
	_, problem := h.refused(p)
	return problem == ""
}
