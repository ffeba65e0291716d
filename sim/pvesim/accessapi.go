package pvesim

import (
	"maps"
	"slices"
	"strings"
)

// accessHandlers answer for people, their tokens, groups, roles and rights, and for pools.
func accessHandlers() map[string]handler {
	const (
		users  = "/access/users"
		groups = "/access/groups"
		roles  = "/access/roles"
		token  = "/access/users/{userid}/token/{tokenid}"
		realms = "/access/domains"
	)
	return map[string]handler{
		"GET /access/permissions": (*call).permissions,
		"POST /access/ticket":     (*call).login,
		"GET /pools":              (*call).listPools,
		"POST /pools":             (*call).createPool,
		"PUT /pools":              (*call).updatePool,
		"DELETE /pools":           (*call).deletePool,
		"GET /pools/{poolid}":     (*call).getPool,
		"PUT /pools/{poolid}":     (*call).updatePool,
		"DELETE /pools/{poolid}":  (*call).deletePool,

		"GET " + users:                     (*call).listUsers,
		"POST " + users:                    (*call).createUser,
		"GET " + users + "/{userid}":       (*call).getUser,
		"PUT " + users + "/{userid}":       (*call).updateUser,
		"DELETE " + users + "/{userid}":    (*call).deleteUser,
		"GET " + users + "/{userid}/tfa":   (*call).userFactors,
		"GET " + users + "/{userid}/token": (*call).listTokens,
		"GET " + token:                     (*call).getToken,
		"POST " + token:                    (*call).createToken,
		"PUT " + token:                     (*call).updateToken,
		"DELETE " + token:                  (*call).deleteToken,
		"GET " + groups:                    (*call).listGroups,
		"POST " + groups:                   (*call).createGroup,
		"GET " + groups + "/{groupid}":     (*call).getGroup,
		"PUT " + groups + "/{groupid}":     (*call).updateGroup,
		"DELETE " + groups + "/{groupid}":  (*call).deleteGroup,
		"GET " + roles:                     (*call).listRoles,
		"POST " + roles:                    (*call).createRole,
		"GET " + roles + "/{roleid}":       (*call).getRole,
		"PUT " + roles + "/{roleid}":       (*call).updateRole,
		"DELETE " + roles + "/{roleid}":    (*call).deleteRole,
		"GET /access/acl":                  (*call).listACLs,
		"PUT /access/acl":                  (*call).updateACL,
		"GET " + realms:                    (*call).listRealms,
		"POST " + realms:                   (*call).createRealm,
		"GET " + realms + "/{realm}":       (*call).getRealm,
		"PUT " + realms + "/{realm}":       (*call).updateRealm,
		"DELETE " + realms + "/{realm}":    (*call).deleteRealm,
		"PUT /access/password":             (*call).changePassword,
		"GET /access/ticket":               (*call).noTicket,
		"GET /access/tfa":                  (*call).listFactors,
		"GET /access/tfa/{userid}":         (*call).factors,
	}
}

// personal are the properties of a user that are taken as they are given.
func personal() []string { return []string{"comment", "email", "firstname", "lastname", "keys"} }

// person is a user as user.cfg has it; full adds groups and tokens.
func (s *state) person(id string, full bool) map[string]any {
	about := s.access.about(id)
	e := map[string]any{"enable": boolInt(about["enable"] != "0"), "expire": max(0, atoi(about["expire"]))}
	for _, k := range personal() {
		if about[k] != "" {
			e[k] = about[k]
		}
	}
	if about["comment"]+about["keys"] != "" { // user.cfg's line has the field then, and is read with it
		e["email"] = about["email"]
	}
	if !full {
		return e
	}
	e["groups"], e["tokens"] = append([]string{}, s.groupsOf(id)...), nil
	if names := s.tokensOf(id); len(names) > 0 {
		tokens := map[string]any{}
		for _, name := range names {
			tokens[name] = s.tokenInfo(id + "!" + name)
		}
		e["tokens"] = tokens
	}
	return e
}

func (c *call) listUsers() (any, error) {
	out := []any{}
	all := c.s.canAny(c.who, "/access/groups", "User.Modify", "Sys.Audit")
	for _, id := range slices.Sorted(maps.Keys(c.s.access.users)) {
		seen := all || id == c.who.id || slices.ContainsFunc(c.s.groupsOf(id), func(g string) bool {
			return c.s.canAny(c.who, "/access/groups/"+g, "User.Modify", "Sys.Audit")
		})
		e := c.s.person(id, c.p.bool("full"))
		if !seen || c.p.has("enabled") && (e["enable"] == 1) != c.p.bool("enabled") {
			continue
		}
		if groups, ok := e["groups"].([]string); ok {
			e["groups"] = strings.Join(groups, ",")
		}
		if tokens, ok := e["tokens"].(map[string]any); ok {
			list := []any{}
			for _, name := range slices.Sorted(maps.Keys(tokens)) {
				info := tokens[name].(map[string]any)
				info["tokenid"] = name
				list = append(list, info)
			}
			e["tokens"] = list
		}
		_, realm, _ := strings.Cut(id, "@")
		e["userid"] = id
		if r := c.s.access.realm(realm); r != nil {
			e["realm-type"] = r["type"]
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) createUser() (any, error) {
	id := c.param("userid")
	a := &c.s.access
	_, realm, _ := strings.Cut(id, "@")
	switch {
	case a.users[id].ID != "":
		return nil, userConfig("create user failed", die("user '%s' already exists", id))
	case c.p.has("password") && a.realm(realm) == nil:
		return nil, userConfig("create user failed", die("auth domain '%s' does not exist", realm))
	case c.p.has("password") && a.realm(realm)["type"] == "pam" && id != "root@pam": // the system has no other users
		return nil, userConfig("create user failed", die("change password failed: user '%s' does not exist", strings.TrimSuffix(id, "@"+realm)))
	}
	if err := c.checkGroups(); err != nil {
		return nil, userConfig("create user failed", err)
	}
	a.users[id] = User{ID: id, Password: c.param("password")}
	c.putUser(id, true)
	return nil, nil
}

func (c *call) checkGroups() error {
	for _, g := range splitList(c.param("groups")) {
		if c.s.access.groups[g] == nil {
			return die("no such group '%s'", g)
		}
	}
	return nil
}

// putUser writes down what a call says of a user.
func (c *call) putUser(id string, join bool) {
	about := c.s.access.about(id)
	for _, k := range []string{"comment", "email", "firstname", "lastname", "keys", "enable", "expire"} {
		if c.p.has(k) {
			about[k] = c.param(k)
		}
	}
	if c.p.has("groups") && !join {
		c.s.leaveGroups(id)
	}
	for _, g := range splitList(c.param("groups")) {
		c.s.access.groups[g][id] = true
	}
}

func (s *state) leaveGroups(id string) {
	for _, members := range s.access.groups {
		delete(members, id)
	}
}

func (c *call) getUser() (any, error) {
	if c.s.access.users[c.param("userid")].ID == "" {
		return nil, die("no such user ('%s')", c.param("userid"))
	}
	return c.s.person(c.param("userid"), true), nil
}

func (c *call) updateUser() (any, error) {
	id := c.param("userid")
	if c.s.access.users[id].ID == "" {
		return nil, userConfig("update user failed", die("no such user ('%s')", id))
	}
	if err := c.checkGroups(); err != nil {
		return nil, userConfig("update user failed", err)
	}
	c.putUser(id, c.p.bool("append"))
	return nil, nil
}

func (c *call) deleteUser() (any, error) {
	id := c.param("userid")
	a := &c.s.access
	for _, name := range c.s.tokensOf(id) {
		c.s.forgetWho(id + "!" + name)
		delete(a.tokens, id+"!"+name)
		delete(a.people, id+"!"+name)
	}
	c.s.leaveGroups(id)
	c.s.forgetWho(id)
	delete(a.users, id)
	delete(a.people, id)
	return nil, nil
}

func (c *call) changePassword() (any, error) {
	id := c.param("userid")
	u := c.s.access.users[id]
	if u.ID == "" {
		return nil, die("no such user ('%s')", id)
	}
	if err := c.mayChangePassword(id); err != nil {
		return nil, err
	}
	u.Password = c.param("password")
	c.s.access.users[id] = u
	return nil, nil
}

// mayChangePassword asks people for their own password, and leaves those of the
// system to root (PVE/RPCEnvironment.pm, reauth_user_for_user_modification).
func (c *call) mayChangePassword(of string) error {
	mine := c.s.access.users[c.who.user()]
	switch {
	case c.who.root():
		return nil
	case of == "root@pam":
		return bareRefusal()
	case !c.p.has("confirmation-password"):
		return badParam("confirmation-password", "password is required to modify user")
	case mine.Password != c.param("confirmation-password"):
		return die("invalid credentials")
	case of != mine.ID && strings.HasSuffix(of, "@pam"):
		return bareRefusal()
	}
	return nil
}

func (c *call) userFactors() (any, error) {
	_, realm, _ := strings.Cut(c.param("userid"), "@")
	if c.s.access.realm(realm) == nil {
		return nil, die("auth domain '%s' does not exist", realm)
	}
	if c.p.bool("multiple") {
		return map[string]any{"types": []string{}}, nil
	}
	return map[string]any{}, nil
}

// noTicket is what asks for a ticket without saying who one is: the web interface
// does, to see whether the API is there.
func (c *call) noTicket() (any, error) { return nil, nil }

func (c *call) factors() (any, error) { return factorsOf(c.s.access.users[c.param("userid")]), nil }

// factorsOf are a user's second factors, as Proxmox lists them.
func factorsOf(u User) []any {
	if !u.TOTP {
		return []any{}
	}
	return []any{map[string]any{"type": "totp", "id": "6f2a8a4e-0000-4000-8000-000000000001", "description": "phone", "created": 946684800}}
}

func (c *call) listFactors() (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.access.users)) {
		if id == c.who.id || c.s.canAny(c.who, "/access/groups", "User.Modify", "Sys.Audit") {
			out = append(out, map[string]any{"userid": id, "entries": factorsOf(c.s.access.users[id])})
		}
	}
	return out, nil
}

func (c *call) listGroups() (any, error) {
	out := []any{}
	for _, g := range slices.Sorted(maps.Keys(c.s.access.groups)) {
		if !c.s.canAny(c.who, "/access/groups/"+g, "User.Modify", "Sys.Audit", "Group.Allocate") {
			continue
		}
		e := map[string]any{"groupid": g, "users": strings.Join(slices.Sorted(maps.Keys(c.s.access.groups[g])), ",")}
		if note := c.s.access.notes[g]; note != "" {
			e["comment"] = note
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *call) createGroup() (any, error) {
	g := c.param("groupid")
	if c.s.access.groups[g] != nil {
		return nil, userConfig("create group failed", die("group '%s' already exists", g))
	}
	c.s.access.groups[g] = map[string]bool{}
	c.s.access.directory.describe(g, c.param("comment"))
	return nil, nil
}

func (c *call) getGroup() (any, error) {
	g := c.param("groupid")
	members := c.s.access.groups[g]
	if members == nil {
		return nil, die("group '%s' does not exist", g)
	}
	e := map[string]any{"members": append([]string{}, slices.Sorted(maps.Keys(members))...)}
	if note := c.s.access.notes[g]; note != "" {
		e["comment"] = note
	}
	return e, nil
}

func (c *call) updateGroup() (any, error) {
	g := c.param("groupid")
	if c.s.access.groups[g] == nil {
		return nil, userConfig("update group failed", die("group '%s' does not exist", g))
	}
	if c.p.has("comment") {
		c.s.access.directory.describe(g, c.param("comment"))
	}
	return nil, nil
}

func (c *call) deleteGroup() (any, error) {
	g := c.param("groupid")
	if c.s.access.groups[g] == nil {
		return nil, userConfig("delete group failed", die("group '%s' does not exist", g))
	}
	delete(c.s.access.groups, g)
	delete(c.s.access.notes, g)
	c.s.forgetWho("@" + g)
	return nil, nil
}
