package access

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func listRoles(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Access.Roles)) {
		privs := slices.Sorted(maps.Keys(c.State.Access.Roles[id]))
		out = append(out, map[string]any{"roleid": id, "privs": strings.Join(privs, ","), "special": answer.Flag(builtIn(id))})
	}
	return out, nil
}

func getRole(c *world.Call) (any, error) {
	role, there := c.State.Access.Roles[c.Param("roleid")]
	if !there {
		return nil, answer.Die("role '%s' does not exist", c.Param("roleid"))
	}
	out := map[string]any{}
	for priv := range role {
		out[priv] = 1
	}
	return out, nil
}

// SoundPrivs refuses a list of privileges of which one does not exist: a format that depends on
// the version (PVE/AccessControl.pm, verify_privname).
func SoundPrivs(c *world.Call) error {
	_, err := wantedPrivs(c)
	return err
}

// wantedPrivs reads the list of privileges, which depends on the version.
func wantedPrivs(c *world.Call) (map[string]bool, error) {
	privs := map[string]bool{}
	for _, p := range schema.SplitList(c.Param("privs")) {
		if !c.State.Access.Roles["Administrator"][p] {
			return nil, answer.BadParam("privs", "invalid format - invalid privilege '"+p+"'\n")
		}
		privs[p] = true
	}
	return privs, nil
}

func createRole(c *world.Call) (any, error) {
	id := c.Param("roleid")
	privs, err := wantedPrivs(c)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.ToUpper(id), "PVE") {
		return nil, answer.BadParam("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	if _, there := c.State.Access.Roles[id]; there {
		return nil, answer.UserConfig("create role failed", answer.Die("role '%s' already exists", id))
	}
	c.State.Access.Roles[id] = privs
	return nil, nil
}

func updateRole(c *world.Call) (any, error) {
	id := c.Param("roleid")
	privs, err := wantedPrivs(c)
	if err != nil {
		return nil, err
	}
	old, there := c.State.Access.Roles[id]
	switch {
	case builtIn(id):
		return nil, answer.Die("auto-generated role '%s' cannot be modified", id)
	case !there:
		return nil, answer.UserConfig("update role failed", answer.Die("role '%s' does not exist", id))
	case c.Params.Bool("append"):
		maps.Copy(privs, old)
	}
	c.State.Access.Roles[id] = privs
	return nil, nil
}

func deleteRole(c *world.Call) (any, error) {
	id := c.Param("roleid")
	_, there := c.State.Access.Roles[id]
	switch {
	case builtIn(id):
		return nil, answer.Die("auto-generated role '%s' cannot be deleted", id)
	case !there:
		return nil, answer.UserConfig("delete role failed", answer.Die("role '%s' does not exist", id))
	}
	delete(c.State.Access.Roles, id)
	// user.cfg is read without them
	c.State.Access.ACLs = slices.DeleteFunc(c.State.Access.ACLs, func(a model.ACL) bool { return a.Role == id })
	return nil, nil
}

func listACLs(c *world.Call) (any, error) {
	out := []any{}
	audit := Can(c.State, c.Who, "/access", "Sys.Audit")
	for _, a := range c.State.Access.ACLs {
		if !audit && !mayModify(c.State, c.Who, a.Path) {
			continue
		}
		kind, id := "user", a.Who
		if name, ok := strings.CutPrefix(a.Who, "@"); ok {
			kind, id = "group", name
		} else if strings.Contains(a.Who, "!") {
			kind = "token"
		}
		out = append(out, map[string]any{"path": a.Path, "type": kind, "ugid": id, "roleid": a.Role, "propagate": answer.Flag(!a.NoPropagate)})
	}
	return out, nil
}

// aclPath is what rights can be granted on (PVE/AccessControl.pm, check_path).
var aclPath = regexp.MustCompile(`^(/|/access|/access/groups(/[\w.-]+)?|/access/realm(/[\w.-]+)?|/nodes(/[\w.-]+)?|/pool(/[\w.-]+){0,3}|` +
	`/sdn|/sdn/(controllers|dns|fabrics|ipams|prefix-lists|route-maps)(/[\w-]+)?|/sdn/zones(/[\w.-]+){0,2}(/[1-9][0-9]{0,3})?|` +
	`/storage(/[\w.-]+)?|/vms(/[1-9][0-9]{2,})?|/mapping(/[\w.-]+){0,2})$`)

func updateACL(c *world.Call) (any, error) {
	if c.Param("users") == "" && c.Param("groups") == "" && c.Param("tokens") == "" {
		e := answer.Fail(http.StatusBadRequest, "Parameter verification failed.")
		for _, k := range []string{"users", "groups", "tokens"} {
			e = e.WithParam(k, "either 'users', 'groups' or 'tokens' is required.")
		}
		return nil, e
	}
	where := normalPath(c.Param("path"))
	if where == "" || !c.Params.Bool("delete") && !aclPath.MatchString(where) {
		return nil, answer.BadParam("path", "invalid ACL path '"+c.Param("path")+"'")
	}
	const failed = "ACL update failed"
	roles := schema.SplitList(c.Param("roles"))
	for _, role := range roles {
		if _, there := c.State.Access.Roles[role]; !there {
			return nil, answer.UserConfig(failed, answer.Die("role '%s' does not exist", role))
		}
		if err := mayHandOut(c, where, role); err != nil {
			return nil, answer.UserConfig(failed, err)
		}
		if _, err := grantees(c); err != nil {
			return nil, answer.UserConfig(failed, err)
		}
	}
	who, err := grantees(c)
	if err != nil {
		return nil, nil // without a role nobody looks at them
	}
	who = slices.DeleteFunc(who, func(id string) bool { return id == "root@pam" }) // who may do everything, and is not written down
	for _, role := range roles {
		for _, id := range who {
			grant(c.State, model.ACL{Path: where, Who: id, Role: role, NoPropagate: !propagates(c)}, c.Params.Bool("delete"))
		}
	}
	return nil, nil
}

// propagates reports whether a call grants rights on what is below a path, too.
func propagates(c *world.Call) bool { return !c.Params.Has("propagate") || c.Params.Bool("propagate") }

// grantees are those whom a change of ACLs is about, groups as @name.
func grantees(c *world.Call) ([]string, error) {
	var who []string
	for _, g := range schema.SplitList(c.Param("groups")) {
		if c.State.Access.Groups[g] == nil {
			return nil, answer.Die("group '%s' does not exist", g)
		}
		who = append(who, "@"+g)
	}
	for _, u := range schema.SplitList(c.Param("users")) {
		if c.State.Access.Users[u].ID == "" {
			return nil, answer.Die("user '%s' does not exist", u)
		}
		who = append(who, u)
	}
	for _, id := range schema.SplitList(c.Param("tokens")) {
		user, name, _ := strings.Cut(id, "!")
		if _, there := c.State.Access.Tokens[id]; !there {
			return nil, answer.Die("no such token '%s' for user '%s'", name, user)
		}
		who = append(who, id)
	}
	return who, nil
}

// mayHandOut refuses to grant what one has not got, to those who may grant only by
// a right of the thing itself.
func mayHandOut(c *world.Call, path, role string) error {
	mine := privileges(c.State, c.Who, path)
	if _, may := mine["Permissions.Modify"]; may || c.Who.Root() {
		return nil
	}
	verb := "add"
	if c.Params.Bool("delete") {
		verb = "remove"
	}
	for _, priv := range slices.Sorted(maps.Keys(c.State.Access.Roles[role])) {
		below, have := mine[priv]
		switch {
		case !have:
			return answer.BadParam("role", "Cannot "+verb+" role '"+role+"' - requires 'Permissions.Modify' or superset of privileges.")
		case propagates(c) && !below && verb == "add":
			return answer.BadParam("role", "Cannot add role '"+role+"' with propagation - requires 'Permissions.Modify' or propagated superset of privileges.")
		}
	}
	if role == "NoAccess" {
		return answer.BadParam("role", "Cannot "+verb+" role '"+role+"' - requires 'Permissions.Modify'")
	}
	return nil
}

// grant adds an ACL instead of one for the same, or removes it.
func grant(s *world.State, acl model.ACL, remove bool) {
	s.Access.ACLs = slices.DeleteFunc(s.Access.ACLs, func(a model.ACL) bool {
		return a.Path == acl.Path && a.Who == acl.Who && a.Role == acl.Role
	})
	if !remove {
		s.Access.ACLs = append(s.Access.ACLs, acl)
	}
}
