package pvesim

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func (c *call) listRoles() (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.access.roles)) {
		privs := slices.Sorted(maps.Keys(c.s.access.roles[id]))
		out = append(out, map[string]any{"roleid": id, "privs": strings.Join(privs, ","), "special": boolInt(builtIn(id))})
	}
	return out, nil
}

func (c *call) getRole() (any, error) {
	role, there := c.s.access.roles[c.param("roleid")]
	if !there {
		return nil, die("role '%s' does not exist", c.param("roleid"))
	}
	out := map[string]any{}
	for priv := range role {
		out[priv] = 1
	}
	return out, nil
}

// wantedPrivs reads the list of privileges, which depends on the version.
func (c *call) wantedPrivs() (map[string]bool, error) {
	privs := map[string]bool{}
	for _, p := range splitList(c.param("privs")) {
		if !c.s.access.roles["Administrator"][p] {
			return nil, badParam("privs", "invalid format - invalid privilege '"+p+"'\n")
		}
		privs[p] = true
	}
	return privs, nil
}

func (c *call) createRole() (any, error) {
	id := c.param("roleid")
	privs, err := c.wantedPrivs()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.ToUpper(id), "PVE") {
		return nil, badParam("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	if _, there := c.s.access.roles[id]; there {
		return nil, userConfig("create role failed", die("role '%s' already exists", id))
	}
	c.s.access.roles[id] = privs
	return nil, nil
}

func (c *call) updateRole() (any, error) {
	id := c.param("roleid")
	privs, err := c.wantedPrivs()
	if err != nil {
		return nil, err
	}
	old, there := c.s.access.roles[id]
	switch {
	case builtIn(id):
		return nil, die("auto-generated role '%s' cannot be modified", id)
	case !there:
		return nil, userConfig("update role failed", die("role '%s' does not exist", id))
	case c.p.bool("append"):
		maps.Copy(privs, old)
	}
	c.s.access.roles[id] = privs
	return nil, nil
}

func (c *call) deleteRole() (any, error) {
	id := c.param("roleid")
	_, there := c.s.access.roles[id]
	switch {
	case builtIn(id):
		return nil, die("auto-generated role '%s' cannot be deleted", id)
	case !there:
		return nil, userConfig("delete role failed", die("role '%s' does not exist", id))
	}
	delete(c.s.access.roles, id)
	c.s.access.acls = slices.DeleteFunc(c.s.access.acls, func(a ACL) bool { return a.Role == id }) // user.cfg is read without them
	return nil, nil
}

func (c *call) listACLs() (any, error) {
	out := []any{}
	audit := c.s.can(c.who, "/access", "Sys.Audit")
	for _, a := range c.s.access.acls {
		if !audit && !c.s.mayModify(c.who, a.Path) {
			continue
		}
		kind, id := "user", a.Who
		if name, ok := strings.CutPrefix(a.Who, "@"); ok {
			kind, id = "group", name
		} else if strings.Contains(a.Who, "!") {
			kind = "token"
		}
		out = append(out, map[string]any{"path": a.Path, "type": kind, "ugid": id, "roleid": a.Role, "propagate": boolInt(!a.NoPropagate)})
	}
	return out, nil
}

// aclPath is what rights can be granted on (PVE/AccessControl.pm, check_path).
var aclPath = regexp.MustCompile(`^(/|/access|/access/groups(/[\w.-]+)?|/access/realm(/[\w.-]+)?|/nodes(/[\w.-]+)?|/pool(/[\w.-]+){0,3}|` +
	`/sdn|/sdn/(controllers|dns|fabrics|ipams|prefix-lists|route-maps)(/[\w-]+)?|/sdn/zones(/[\w.-]+){0,2}(/[1-9][0-9]{0,3})?|` +
	`/storage(/[\w.-]+)?|/vms(/[1-9][0-9]{2,})?|/mapping(/[\w.-]+){0,2})$`)

func (c *call) updateACL() (any, error) {
	if c.param("users") == "" && c.param("groups") == "" && c.param("tokens") == "" {
		e := fail(http.StatusBadRequest, "Parameter verification failed.")
		for _, k := range []string{"users", "groups", "tokens"} {
			e = e.with(k, "either 'users', 'groups' or 'tokens' is required.")
		}
		return nil, e
	}
	where := normalPath(c.param("path"))
	if where == "" || !c.p.bool("delete") && !aclPath.MatchString(where) {
		return nil, badParam("path", "invalid ACL path '"+c.param("path")+"'")
	}
	const failed = "ACL update failed"
	roles := splitList(c.param("roles"))
	for _, role := range roles {
		if _, there := c.s.access.roles[role]; !there {
			return nil, userConfig(failed, die("role '%s' does not exist", role))
		}
		if err := c.mayHandOut(where, role); err != nil {
			return nil, userConfig(failed, err)
		}
		if _, err := c.grantees(); err != nil {
			return nil, userConfig(failed, err)
		}
	}
	who, err := c.grantees()
	if err != nil {
		return nil, nil // without a role nobody looks at them
	}
	who = slices.DeleteFunc(who, func(id string) bool { return id == "root@pam" }) // who may do everything, and is not written down
	for _, role := range roles {
		for _, id := range who {
			c.s.grant(ACL{Path: where, Who: id, Role: role, NoPropagate: !c.propagates()}, c.p.bool("delete"))
		}
	}
	return nil, nil
}

// propagates reports whether a call grants rights on what is below a path, too.
func (c *call) propagates() bool { return !c.p.has("propagate") || c.p.bool("propagate") }

// grantees are those whom a change of ACLs is about, groups as @name.
func (c *call) grantees() ([]string, error) {
	var who []string
	for _, g := range splitList(c.param("groups")) {
		if c.s.access.groups[g] == nil {
			return nil, die("group '%s' does not exist", g)
		}
		who = append(who, "@"+g)
	}
	for _, u := range splitList(c.param("users")) {
		if c.s.access.users[u].ID == "" {
			return nil, die("user '%s' does not exist", u)
		}
		who = append(who, u)
	}
	for _, id := range splitList(c.param("tokens")) {
		user, name, _ := strings.Cut(id, "!")
		if _, there := c.s.access.tokens[id]; !there {
			return nil, die("no such token '%s' for user '%s'", name, user)
		}
		who = append(who, id)
	}
	return who, nil
}

// mayHandOut refuses to grant what one has not got, to those who may grant only by
// a right of the thing itself.
func (c *call) mayHandOut(path, role string) error {
	mine := c.s.privileges(c.who, path)
	if _, may := mine["Permissions.Modify"]; may || c.who.root() {
		return nil
	}
	verb := "add"
	if c.p.bool("delete") {
		verb = "remove"
	}
	for _, priv := range slices.Sorted(maps.Keys(c.s.access.roles[role])) {
		below, have := mine[priv]
		switch {
		case !have:
			return badParam("role", "Cannot "+verb+" role '"+role+"' - requires 'Permissions.Modify' or superset of privileges.")
		case c.propagates() && !below && verb == "add":
			return badParam("role", "Cannot add role '"+role+"' with propagation - requires 'Permissions.Modify' or propagated superset of privileges.")
		}
	}
	if role == "NoAccess" {
		return badParam("role", "Cannot "+verb+" role '"+role+"' - requires 'Permissions.Modify'")
	}
	return nil
}

// grant adds an ACL instead of one for the same, or removes it.
func (s *state) grant(acl ACL, remove bool) {
	s.access.acls = slices.DeleteFunc(s.access.acls, func(a ACL) bool { return a.Path == acl.Path && a.Who == acl.Who && a.Role == acl.Role })
	if !remove {
		s.access.acls = append(s.access.acls, acl)
	}
}
