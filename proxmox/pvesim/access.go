package pvesim

import (
	"crypto/subtle"
	"fmt"
	"maps"
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
	groups     map[string]map[string]bool // members by name
	directory
	tickets map[string]ticket
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
		groups: map[string]map[string]bool{}, acls: slices.Clone(m.ACLs), tickets: map[string]ticket{}}
	nine := !strings.HasPrefix(m.Version, "8.")
	all := slices.DeleteFunc(administrator(), func(p string) bool {
		return nine && p == "VM.Monitor" || !nine && (strings.HasPrefix(p, "VM.GuestAgent.") || p == "VM.Replicate")
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

// rolesOf returns the roles that somebody has on a path, and whether each reaches
// below it: those granted deepest replace those from above, at one depth a user's
// own replace those of its groups (PVE/AccessControl.pm, roles). Roles of pools and
// of a token's user are not among them.
func (a *access) rolesOf(who, p string) map[string]bool {
	best, own, roles := -1, false, map[string]bool{}
	for _, acl := range a.acls {
		group, isGroup := strings.CutPrefix(acl.Who, "@")
		if acl.Who != who && (!isGroup || !a.groups[group][who]) {
			continue
		}
		below := acl.Path == "/" || strings.HasPrefix(p, acl.Path+"/")
		if acl.Path != p && (!below || acl.NoPropagate) {
			continue
		}
		switch depth := len(acl.Path); {
		case depth < best, depth == best && own && isGroup:
			continue
		case depth > best, !own && !isGroup:
			best, own, roles = depth, !isGroup, map[string]bool{}
		}
		roles[acl.Role] = !acl.NoPropagate
	}
	if propagates, none := roles["NoAccess"]; none {
		return map[string]bool{"NoAccess": propagates}
	}
	return roles
}

// privileges returns what somebody may do on a path, and whether it reaches below:
// a token that is separated has what both it and its user have
// (PVE/RPCEnvironment.pm, permissions).
func (s *Sim) privileges(who identity, p string) map[string]bool {
	a := &s.access
	user := identity{who.user()}
	if who.token() && !a.tokens[who.id].PrivSep {
		who = user
	}
	if who.root() {
		return maps.Clone(a.roles["Administrator"])
	}
	out := map[string]bool{}
	for role, propagates := range s.pooledRoles(who.id, p) {
		for priv := range a.roles[role] {
			out[priv] = out[priv] || propagates
		}
	}
	if !who.token() || user.root() {
		return out
	}
	users := s.privileges(user, p)
	for priv, propagates := range out {
		if below, granted := users[priv]; granted {
			out[priv] = propagates && below
		} else {
			delete(out, priv)
		}
	}
	return out
}

// pooledRoles adds to the roles on a machine those on the pool that it is in, which
// never propagate.
func (s *Sim) pooledRoles(who, p string) map[string]bool {
	roles := s.access.rolesOf(who, p)
	id, isVM := strings.CutPrefix(p, "/vms/")
	if !isVM {
		return roles
	}
	v := s.vms[atoi(id)]
	if _, none := roles["NoAccess"]; none || v == nil || v.pool == "" {
		return roles
	}
	pooled := s.access.rolesOf(who, "/pool/"+v.pool)
	if _, none := pooled["NoAccess"]; none {
		return map[string]bool{"NoAccess": false}
	}
	for role := range pooled {
		if _, there := roles[role]; !there {
			roles[role] = false
		}
	}
	return roles
}

// can reports whether somebody has a privilege on a path: that of privileges,
// which is asked for thousands of times.
func (s *Sim) can(who identity, p, priv string) bool {
	a := &s.access
	if who.token() && !a.tokens[who.id].PrivSep {
		who = identity{who.user()}
	}
	if who.root() {
		return a.roles["Administrator"][priv]
	}
	for role := range s.pooledRoles(who.id, p) {
		if a.roles[role][priv] {
			return !who.token() || s.can(identity{who.user()}, p, priv)
		}
	}
	return false
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

// needAll refuses with the first privilege that is missing.
func (s *Sim) needAll(who identity, p string, privs []string) error {
	for _, priv := range privs {
		if !s.can(who, p, priv) {
			return refuse(p, priv)
		}
	}
	return nil
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
		if !known || t.Secret == "" || subtle.ConstantTimeCompare([]byte(t.Secret), []byte(given)) != 1 || s.access.shut(id) || s.access.shut(identity{id}.user()) {
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
	return s.permittedUser(c, check)
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
	return s.needAll(c.who, where, privs)
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

// permissions is what somebody may do, by path: the paths that are always named,
// and those that anything is granted on (get_effective_permissions).
func (c *call) permissions() (any, error) {
	who := c.who
	if id := c.param("userid"); id != "" && id != who.id {
		if !strings.HasPrefix(id, who.id+"!") && !c.s.can(who, "/access", "Sys.Audit") {
			return nil, refuse("/access", "Sys.Audit")
		}
		who = identity{id}
	}
	paths := []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"}
	if p := c.param("path"); p != "" {
		paths = []string{p}
	} else {
		for _, acl := range c.s.access.acls {
			paths = append(paths, acl.Path)
		}
		for _, v := range c.s.vms {
			if v.pool != "" {
				paths = append(paths, "/vms/"+itoa(v.id))
			}
		}
	}
	out := map[string]map[string]int{}
	for _, p := range paths {
		privs := map[string]int{}
		for priv, propagates := range c.s.privileges(who, p) {
			privs[priv] = boolInt(propagates)
		}
		if len(privs) > 0 || c.p.has("path") {
			out[p] = privs
		}
	}
	return out, nil
}
