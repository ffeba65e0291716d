package pvesim

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// unauthorizedDelay is what pveproxy makes a client wait for a 401 (PVE/APIServer/AnyEvent.pm).
const unauthorizedDelay = 3 * time.Second

// identity is who asks: a user or a token. Only literal root@pam is root.
type identity struct{ id string }

func (i identity) root() bool { return i.id == "root@pam" }

func (i identity) token() bool { return strings.Contains(i.id, "!") }

// user returns the user, of a token its owner.
func (i identity) user() string {
	user, _, _ := strings.Cut(i.id, "!")
	return user
}

// access is who may do what.
type access struct {
	roles      map[string]map[string]bool
	users      map[string]User
	tokens     map[string]Token
	firstToken Token
	acls       []ACL
	tickets    map[string]ticket
}

type ticket struct{ user, csrf string }

// administrator lists every privilege of Proxmox VE 9.
func administrator() []string {
	return []string{
		"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
		"Group.Allocate", "Mapping.Audit", "Mapping.Modify", "Mapping.Use", "Permissions.Modify", "Pool.Allocate", "Pool.Audit",
		"Realm.Allocate", "Realm.AllocateUser", "SDN.Allocate", "SDN.Audit", "SDN.Use", "Sys.AccessNetwork", "Sys.Audit",
		"Sys.Console", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt", "Sys.Syslog", "User.Modify", "VM.Allocate", "VM.Audit",
		"VM.Backup", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.Console", "VM.GuestAgent.Audit",
		"VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted",
		"VM.Migrate", "VM.Monitor", "VM.PowerMgmt", "VM.Replicate", "VM.Snapshot", "VM.Snapshot.Rollback",
	}
}

func newAccess(m Model) access {
	a := access{roles: map[string]map[string]bool{"NoAccess": {}}, users: map[string]User{}, tokens: map[string]Token{},
		acls: slices.Clone(m.ACLs), tickets: map[string]ticket{}}
	nine := !strings.HasPrefix(m.Version, "8.")
	all := slices.DeleteFunc(administrator(), func(p string) bool {
		return nine && p == "VM.Monitor" || !nine && strings.HasPrefix(p, "VM.GuestAgent.")
	})
	a.setRole("Administrator", all)
	a.setRole("PVEAuditor", slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !strings.HasSuffix(p, ".Audit") }))
	a.users["root@pam"] = User{ID: "root@pam"}
	for _, r := range m.Roles {
		a.setRole(r.ID, r.Privs)
	}
	for _, u := range m.Users {
		a.users[u.ID] = u
	}
	for _, t := range m.Tokens {
		if a.firstToken.ID == "" {
			a.firstToken = t
		}
		a.tokens[t.ID] = t
	}
	return a
}

func (a *access) setRole(id string, privs []string) {
	set := map[string]bool{}
	for _, p := range privs {
		set[p] = true
	}
	a.roles[id] = set
}

// SetRole makes a role, or replaces what it grants.
func (s *Sim) SetRole(id string, privs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.access.setRole(id, privs)
}

// Revoke takes privileges away from every role of the model; what a test of a
// refused permission begins with.
func (s *Sim) Revoke(privs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, role := range s.access.roles {
		if id == "Administrator" {
			continue
		}
		for _, p := range privs {
			delete(role, p)
		}
	}
}

// rolesOf returns the roles that somebody has on a path: those granted deepest
// replace those from above.
func (a *access) rolesOf(who, p string) (roles []string) {
	if who == "root@pam" {
		return []string{"Administrator"}
	}
	best := -1
	for _, acl := range a.acls {
		if acl.Who != who {
			continue
		}
		exact := acl.Path == p
		below := acl.Path == "/" || strings.HasPrefix(p, acl.Path+"/")
		if !exact && (!below || acl.NoPropagate) {
			continue
		}
		depth := len(acl.Path)
		switch {
		case depth > best:
			best, roles = depth, []string{acl.Role}
		case depth == best:
			roles = append(roles, acl.Role)
		}
	}
	return roles
}

func (a *access) grants(who, p, priv string) bool {
	for _, r := range a.rolesOf(who, p) {
		if a.roles[r][priv] {
			return true
		}
	}
	return false
}

// can reports whether somebody has a privilege on a path, a VM's pool included.
func (s *Sim) can(who identity, p, priv string) bool {
	if s.canThere(who, p, priv) {
		return true
	}
	if rest, ok := strings.CutPrefix(p, "/vms/"); ok {
		if v := s.vms[atoi(rest)]; v != nil && v.pool != "" {
			return s.canThere(who, "/pool/"+v.pool, priv)
		}
	}
	return false
}

func (s *Sim) canThere(who identity, p, priv string) bool {
	a := &s.access
	if !who.token() {
		return a.grants(who.id, p, priv)
	}
	if t := a.tokens[who.id]; !t.PrivSep {
		return a.grants(who.user(), p, priv)
	}
	return a.grants(who.id, p, priv) && a.grants(who.user(), p, priv)
}

func (s *Sim) canAny(who identity, p string, privs ...string) bool {
	return slices.ContainsFunc(privs, func(priv string) bool { return s.can(who, p, priv) })
}

// need returns a refusal that names path and privilege, as Proxmox words it.
func (s *Sim) need(who identity, p string, privs ...string) error {
	if s.canAny(who, p, privs...) {
		return nil
	}
	return refuse(p, privs...)
}

func refuse(p string, privs ...string) error {
	return fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (%s, %s)", p, strings.Join(privs, "|")))
}

// bareRefusal is a refusal that names nothing.
func bareRefusal() error { return fail(http.StatusForbidden, "Permission check failed") }

// authenticate finds out who asks.
func (s *Sim) authenticate(r *http.Request) (identity, error) {
	refused := func(text string) error { return &apiError{status: http.StatusUnauthorized, text: text, bare: true} }
	if header := r.Header.Get("Authorization"); header != "" {
		rest, ok := strings.CutPrefix(header, "PVEAPIToken")
		if !ok {
			return identity{}, refused("No ticket")
		}
		id, given, _ := strings.Cut(strings.TrimLeft(rest, "= "), "=")
		t, known := s.access.tokens[id]
		if !known || subtle.ConstantTimeCompare([]byte(t.Secret), []byte(given)) != 1 {
			return identity{}, refused("Authentication failed!")
		}
		return identity{id: id}, nil
	}
	cookie, err := r.Cookie("PVEAuthCookie")
	if err != nil {
		return identity{}, refused("No ticket")
	}
	t, known := s.access.tickets[cookie.Value]
	if !known {
		return identity{}, refused("Authentication failed!")
	}
	if r.Method != http.MethodGet && r.Header.Get("CSRFPreventionToken") != t.csrf {
		return identity{}, refused("Permission denied - invalid csrf token")
	}
	return identity{id: t.user}, nil
}

// permit holds a request against what the schema says about who may make it.
func (s *Sim) permit(c *call) error {
	perms := c.spec.Permissions
	if c.who.token() && c.spec.NoToken {
		return fail(http.StatusForbidden, fmt.Sprintf("URI '/%s' not available with API token", strings.TrimPrefix(c.path, "/")))
	}
	if user, ok := perms["user"].(string); ok && (user == "all" || user == "world") {
		return nil
	}
	if check, ok := perms["check"].([]any); ok {
		return s.permitted(c, check)
	}
	if len(perms) > 0 { // described in prose, checked in code
		return nil
	}
	if !c.who.root() {
		return fail(http.StatusForbidden, "Permission check failed (user != root@pam)")
	}
	return nil
}

// permitted evaluates ["perm", path, [privileges], options…], ["and", …] and ["or", …].
func (s *Sim) permitted(c *call, check []any) error {
	op, _ := check[0].(string)
	switch op {
	case "and", "or":
		var err error
		for _, sub := range check[1:] {
			err = s.permitted(c, sub.([]any))
			if (err == nil) == (op == "or") {
				return err
			}
		}
		if op == "or" && err != nil {
			return bareRefusal()
		}
		return err
	case "perm":
		return s.permittedOn(c, check)
	}
	return nil
}

func (s *Sim) permittedOn(c *call, check []any) error {
	template, _ := check[1].(string)
	anyOf, needed := false, ""
	for i := 3; i+1 < len(check); i += 2 {
		switch check[i] {
		case "any":
			anyOf = true
		case "require_param":
			needed, _ = check[i+1].(string)
		}
	}
	if needed != "" && !c.p.has(needed) {
		return bareRefusal()
	}
	where := fill(template, c.p)
	privs := s.translate(check[2].([]any))
	if anyOf {
		return s.need(c.who, where, privs...)
	}
	for _, priv := range privs {
		if !s.can(c.who, where, priv) {
			return refuse(where, privs...)
		}
	}
	return nil
}

// translate turns the privileges of Proxmox VE 9 into those of the version we are.
func (s *Sim) translate(in []any) []string {
	var out []string
	for _, p := range in {
		name, _ := p.(string)
		if strings.HasPrefix(s.version, "8.") && strings.HasPrefix(name, "VM.GuestAgent.") {
			name = "VM.Monitor"
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// fill puts parameters into a path of the schema ("/vms/{vmid}").
func fill(template string, p params) string {
	for {
		before, rest, ok := strings.Cut(template, "{")
		if !ok {
			return path.Clean(template)
		}
		name, after, _ := strings.Cut(rest, "}")
		template = before + p.get(name) + after
	}
}
