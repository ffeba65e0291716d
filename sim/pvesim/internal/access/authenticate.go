package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// UnauthorizedDelay is what pveproxy makes a client wait for a 401 (PVE/APIServer/AnyEvent.pm).
const UnauthorizedDelay = 3 * time.Second

// Authenticate finds out who asks.
func Authenticate(s *world.State, r *http.Request) (world.Identity, error) {
	refused := func(text string) error { return &answer.Error{Status: http.StatusUnauthorized, Text: text, Bare: true} }
	header := r.Header.Get("Authorization")
	given := AuthValue(r.Header.Get("Cookie"), "PVEAuthCookie")
	if given == "" {
		given = AuthValue(header, "PVEAuthCookie")
	}
	if token := AuthValue(header, "PVEAPIToken"); given == "" && token != "" {
		id, given, _ := strings.Cut(token, "=")
		t, known := s.Access.Tokens[id]
		if !known || t.Secret == "" || subtle.ConstantTimeCompare([]byte(t.Secret), []byte(given)) != 1 || s.Access.Shut(id) || s.Access.Shut(world.Identity{ID: id}.User()) {
			return world.Identity{}, refused("Authentication failed!")
		}
		return world.Identity{ID: id}, nil
	}
	if given == "" {
		return world.Identity{}, refused("No ticket")
	}
	t, known := s.Access.Ticket(given)
	if !known || s.Access.Users[t.User].ID == "" || s.Access.Shut(t.User) {
		return world.Identity{}, refused("Authentication failed!")
	}
	if r.Method != http.MethodGet && r.Header.Get("CSRFPreventionToken") != t.CSRF {
		return world.Identity{}, refused("Permission denied - invalid csrf token")
	}
	return world.Identity{ID: t.User}, nil
}

// AuthValue takes a value out of a header, unescaped: tickets hold characters that
// clients may escape (PVE/APIServer/Formatter.pm, extract_auth_value).
func AuthValue(header, key string) string {
	for i := 0; i < len(header); i++ {
		rest, found := strings.CutPrefix(header[i:], key)
		if !found || i > 0 && header[i-1] != ' ' && header[i-1] != '\t' || rest == "" || rest[0] != '=' && rest[0] != ' ' {
			continue
		}
		value, _, _ := strings.Cut(rest[1:], ";")
		return request.Unescape(value)
	}
	return ""
}

// WithoutTicket are the calls that need no login (PVE/HTTPServer.pm, auth_handler).
func WithoutTicket(method, path string) bool {
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
func login(c *world.Call) (any, error) {
	if err := SoundPrivs(c); err != nil {
		return nil, err
	}
	name := c.Param("username")
	if realm := c.Param("realm"); realm != "" {
		name += "@" + realm
	}
	u, known := c.State.Access.Users[name]
	asks := c.Params.Get("path") != "" && c.Params.Get("privs") != "" // whether somebody may do something; no ticket comes of it
	mayRenew := false
	if t, ok := c.State.Access.Ticket(c.Param("password")); ok { // root's is everybody's (PVE/API2/AccessControl.pm)
		mayRenew = known && !c.State.Access.Shut(name) && (t.User == name || t.User == "root@pam" && !asks)
	}
	allowed := mayRenew || known && u.Password != "" && u.Password == c.Param("password") && !c.State.Access.Shut(name) && (!u.TOTP || !c.Params.Has("otp") && !c.Params.Has("tfa-challenge"))
	if allowed && asks {
		where := normalPath(c.Param("path"))
		allowed = where != "" && NeedAll(c.State, world.Identity{ID: name}, where, schema.SplitList(c.Param("privs"))) == nil
	}
	if !allowed {
		if c.State.Wait(UnauthorizedDelay, nil) != nil {
			return nil, answer.ErrDropped
		}
		return nil, &answer.Error{Status: http.StatusUnauthorized, Text: "authentication failure"}
	}
	if asks {
		return map[string]any{"username": name, "cap": capabilities(c.State, world.Identity{ID: name})}, nil
	}
	var b [24]byte
	_, _ = rand.Read(b[:])
	said := name
	if u.TOTP && !mayRenew {
		said = "!tfa!" + `{"totp"%3Atrue,"recovery"%3Anull}` // colons alone are escaped
	}
	id := fmt.Sprintf("PVE:%s:%08X::%s", said, time.Now().Unix(), hex.EncodeToString(b[:]))
	t := world.Ticket{User: name, CSRF: fmt.Sprintf("%08X:%s", time.Now().Unix(), hex.EncodeToString(b[:12])), Made: time.Now()}
	if u.TOTP && !mayRenew {
		return map[string]any{"ticket": id, "username": name, "CSRFPreventionToken": t.CSRF, "NeedTFA": 1}, nil
	}
	c.State.Access.Tickets[id] = t
	return map[string]any{"ticket": id, "username": name, "CSRFPreventionToken": t.CSRF,
		"cap": capabilities(c.State, world.Identity{ID: name})}, nil
}
