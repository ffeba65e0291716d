package pvesim

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// unauthorizedDelay is what pveproxy makes a client wait for a 401 (PVE/APIServer/AnyEvent.pm).
const unauthorizedDelay = 3 * time.Second

// authenticate finds out who asks.
func (s *state) authenticate(r *http.Request) (identity, error) {
	refused := func(text string) error { return &apiError{status: http.StatusUnauthorized, text: text, bare: true} }
	header := r.Header.Get("Authorization")
	given := authValue(r.Header.Get("Cookie"), "PVEAuthCookie")
	if given == "" {
		given = authValue(header, "PVEAuthCookie")
	}
	if token := authValue(header, "PVEAPIToken"); given == "" && token != "" {
		id, given, _ := strings.Cut(token, "=")
		t, known := s.access.tokens[id]
		if !known || t.Secret == "" || subtle.ConstantTimeCompare([]byte(t.Secret), []byte(given)) != 1 || s.access.shut(id) || s.access.shut(identity{id}.user()) {
			return identity{}, refused("Authentication failed!")
		}
		return identity{id: id}, nil
	}
	if given == "" {
		return identity{}, refused("No ticket")
	}
	t, known := s.access.tickets[given]
	if !known || s.access.users[t.user].ID == "" || s.access.shut(t.user) {
		return identity{}, refused("Authentication failed!")
	}
	if r.Method != http.MethodGet && r.Header.Get("CSRFPreventionToken") != t.csrf {
		return identity{}, refused("Permission denied - invalid csrf token")
	}
	return identity{id: t.user}, nil
}

// authValue takes a value out of a header, unescaped: tickets hold characters that
// clients may escape (PVE/APIServer/Formatter.pm, extract_auth_value).
func authValue(header, key string) string {
	for i := 0; i < len(header); i++ {
		rest, found := strings.CutPrefix(header[i:], key)
		if !found || i > 0 && header[i-1] != ' ' && header[i-1] != '\t' || rest == "" || rest[0] != '=' && rest[0] != ' ' {
			continue
		}
		value, _, _ := strings.Cut(rest[1:], ";")
		return unescape(value)
	}
	return ""
}

// withoutTicket are the calls that need no login (PVE/HTTPServer.pm, auth_handler).
func withoutTicket(method, path string) bool {
	switch path {
	case "/access/ticket":
		return method == http.MethodGet || method == http.MethodPost
	case "/access/domains":
		return method == http.MethodGet
	case "/access/vncticket", "/access/openid/login", "/access/openid/auth-url":
		return method == http.MethodPost
	}
	return false
}

// login gives out a ticket. Wrong passwords wait as wrong tickets do. Who has a second
// factor gets one that lets nobody in, with the status of success.
func (c *call) login() (any, error) {
	name := c.param("username")
	if realm := c.param("realm"); realm != "" {
		name += "@" + realm
	}
	u, known := c.s.access.users[name]
	asks := c.p.get("path") != "" && c.p.get("privs") != "" // whether somebody may do something; no ticket comes of it
	allowed := known && u.Password != "" && u.Password == c.param("password") && !c.s.access.shut(name) && (!u.TOTP || !c.p.has("otp") && !c.p.has("tfa-challenge"))
	if allowed && asks {
		where := normalPath(c.param("path"))
		allowed = where != "" && c.s.needAll(identity{name}, where, splitList(c.param("privs"))) == nil
	}
	if !allowed {
		if c.s.wait(unauthorizedDelay, nil) != nil {
			return nil, errDropped
		}
		return nil, &apiError{status: http.StatusUnauthorized, text: "authentication failure"}
	}
	if asks {
		return map[string]any{"username": name, "cap": c.s.capabilities(identity{name})}, nil
	}
	var b [24]byte
	_, _ = rand.Read(b[:])
	said := name
	if u.TOTP {
		said = "!tfa!" + `{"totp"%3Atrue,"recovery"%3Anull}` // colons alone are escaped
	}
	id := fmt.Sprintf("PVE:%s:%08X::%s", said, time.Now().Unix(), hex.EncodeToString(b[:]))
	t := ticket{user: name, csrf: fmt.Sprintf("%08X:%s", time.Now().Unix(), hex.EncodeToString(b[:12]))}
	if u.TOTP {
		return map[string]any{"ticket": id, "username": name, "CSRFPreventionToken": t.csrf, "NeedTFA": 1}, nil
	}
	c.s.access.tickets[id] = t
	return map[string]any{"ticket": id, "username": name, "CSRFPreventionToken": t.csrf, "cap": c.s.capabilities(identity{name})}, nil
}
