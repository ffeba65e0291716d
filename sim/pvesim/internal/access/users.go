package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Endpoints answer for people, their tokens, groups, roles and rights, and for pools.
func Endpoints() map[string]world.Handler {
	const (
		users  = "/access/users"
		groups = "/access/groups"
		roles  = "/access/roles"
		token  = "/access/users/{userid}/token/{tokenid}"
		realms = "/access/domains"
	)
	return map[string]world.Handler{
		"GET /access/permissions": permissions,
		"POST /access/ticket":     login,
		"GET /pools":              listPools,
		"POST /pools":             createPool,
		"PUT /pools":              updatePool,
		"DELETE /pools":           deletePool,
		"GET /pools/{poolid}":     getPool,
		"PUT /pools/{poolid}":     updatePool,
		"DELETE /pools/{poolid}":  deletePool,

		"GET " + users:                     listUsers,
		"POST " + users:                    createUser,
		"GET " + users + "/{userid}":       getUser,
		"PUT " + users + "/{userid}":       updateUser,
		"DELETE " + users + "/{userid}":    deleteUser,
		"GET " + users + "/{userid}/tfa":   userFactors,
		"GET " + users + "/{userid}/token": listTokens,
		"GET " + token:                     getToken,
		"POST " + token:                    createToken,
		"PUT " + token:                     updateToken,
		"DELETE " + token:                  deleteToken,
		"GET " + groups:                    listGroups,
		"POST " + groups:                   createGroup,
		"GET " + groups + "/{groupid}":     getGroup,
		"PUT " + groups + "/{groupid}":     updateGroup,
		"DELETE " + groups + "/{groupid}":  deleteGroup,
		"GET " + roles:                     listRoles,
		"POST " + roles:                    createRole,
		"GET " + roles + "/{roleid}":       getRole,
		"PUT " + roles + "/{roleid}":       updateRole,
		"DELETE " + roles + "/{roleid}":    deleteRole,
		"GET /access/acl":                  listACLs,
		"PUT /access/acl":                  updateACL,
		"GET " + realms:                    listRealms,
		"POST " + realms:                   createRealm,
		"GET " + realms + "/{realm}":       getRealm,
		"PUT " + realms + "/{realm}":       updateRealm,
		"DELETE " + realms + "/{realm}":    deleteRealm,
		"PUT /access/password":             changePassword,
		"GET /access/ticket":               noTicket,
		"GET /access/tfa":                  listFactors,
		"GET /access/tfa/{userid}":         factors,
	}
}

// personal are the properties of a user that are taken as they are given.
func personal() []string { return []string{"comment", "email", "firstname", "lastname", "keys"} }

// person is a user as user.cfg has it; full adds groups and tokens.
func person(s *world.State, id string, full bool) map[string]any {
	about := s.Access.About(id)
	e := map[string]any{"enable": answer.Flag(about["enable"] != "0"), "expire": max(0, schema.Atoi(about["expire"]))}
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
	e["groups"], e["tokens"] = append([]string{}, s.GroupsOf(id)...), nil
	if names := s.TokensOf(id); len(names) > 0 {
		tokens := map[string]any{}
		for _, name := range names {
			tokens[name] = tokenInfo(s, id+"!"+name)
		}
		e["tokens"] = tokens
	}
	return e
}

func listUsers(c *world.Call) (any, error) {
	out := []any{}
	all := CanAny(c.State, c.Who, "/access/groups", "User.Modify", "Sys.Audit")
	for _, id := range slices.Sorted(maps.Keys(c.State.Access.Users)) {
		seen := all || id == c.Who.ID || slices.ContainsFunc(c.State.GroupsOf(id), func(g string) bool {
			return CanAny(c.State, c.Who, "/access/groups/"+g, "User.Modify", "Sys.Audit")
		})
		e := person(c.State, id, c.Params.Bool("full"))
		if !seen || c.Params.Has("enabled") && (e["enable"] == 1) != c.Params.Bool("enabled") {
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
		if r := c.State.Access.Realm(realm); r != nil {
			e["realm-type"] = r["type"]
		}
		out = append(out, e)
	}
	return out, nil
}

func createUser(c *world.Call) (any, error) {
	id := c.Param("userid")
	a := &c.State.Access
	_, realm, _ := strings.Cut(id, "@")
	switch {
	case a.Users[id].ID != "":
		return nil, answer.UserConfig("create user failed", answer.Die("user '%s' already exists", id))
	case c.Params.Has("password") && a.Realm(realm) == nil:
		return nil, answer.UserConfig("create user failed", answer.Die("auth domain '%s' does not exist", realm))
	case c.Params.Has("password") && a.Realm(realm)["type"] == "pam" && id != "root@pam": // the system has no other users
		return nil, answer.UserConfig("create user failed",
			answer.Die("change password failed: user '%s' does not exist", strings.TrimSuffix(id, "@"+realm)))
	}
	if err := checkGroups(c); err != nil {
		return nil, answer.UserConfig("create user failed", err)
	}
	a.Users[id] = model.User{ID: id, Password: c.Param("password")}
	putUser(c, id, true)
	return nil, nil
}

func checkGroups(c *world.Call) error {
	for _, g := range schema.SplitList(c.Param("groups")) {
		if c.State.Access.Groups[g] == nil {
			return answer.Die("no such group '%s'", g)
		}
	}
	return nil
}

// putUser writes down what a call says of a user.
func putUser(c *world.Call, id string, join bool) {
	about := c.State.Access.About(id)
	for _, k := range []string{"comment", "email", "firstname", "lastname", "keys", "enable", "expire"} {
		if c.Params.Has(k) {
			about[k] = c.Param(k)
		}
	}
	if c.Params.Has("groups") && !join {
		leaveGroups(c.State, id)
	}
	for _, g := range schema.SplitList(c.Param("groups")) {
		c.State.Access.Groups[g][id] = true
	}
}

func leaveGroups(s *world.State, id string) {
	for _, members := range s.Access.Groups {
		delete(members, id)
	}
}

func getUser(c *world.Call) (any, error) {
	if c.State.Access.Users[c.Param("userid")].ID == "" {
		return nil, answer.Die("no such user ('%s')", c.Param("userid"))
	}
	return person(c.State, c.Param("userid"), true), nil
}

func updateUser(c *world.Call) (any, error) {
	id := c.Param("userid")
	if c.State.Access.Users[id].ID == "" {
		return nil, answer.UserConfig("update user failed", answer.Die("no such user ('%s')", id))
	}
	if err := checkGroups(c); err != nil {
		return nil, answer.UserConfig("update user failed", err)
	}
	putUser(c, id, c.Params.Bool("append"))
	return nil, nil
}

func deleteUser(c *world.Call) (any, error) {
	id := c.Param("userid")
	a := &c.State.Access
	for _, name := range c.State.TokensOf(id) {
		c.State.ForgetWho(id + "!" + name)
		delete(a.Tokens, id+"!"+name)
		delete(a.People, id+"!"+name)
	}
	leaveGroups(c.State, id)
	c.State.ForgetWho(id)
	delete(a.Users, id)
	delete(a.People, id)
	return nil, nil
}

func changePassword(c *world.Call) (any, error) {
	id := c.Param("userid")
	u := c.State.Access.Users[id]
	if u.ID == "" {
		return nil, answer.Die("no such user ('%s')", id)
	}
	if err := mayChangePassword(c, id); err != nil {
		return nil, err
	}
	u.Password = c.Param("password")
	c.State.Access.Users[id] = u
	return nil, nil
}

// mayChangePassword asks people for their own password, and leaves those of the
// system to root (PVE/RPCEnvironment.pm, reauth_user_for_user_modification).
func mayChangePassword(c *world.Call, of string) error {
	mine := c.State.Access.Users[c.Who.User()]
	switch {
	case c.Who.Root():
		return nil
	case of == "root@pam":
		return BareRefusal()
	case !c.Params.Has("confirmation-password"):
		return answer.BadParam("confirmation-password", "password is required to modify user")
	case mine.Password != c.Param("confirmation-password"):
		return answer.Die("invalid credentials")
	case of != mine.ID && strings.HasSuffix(of, "@pam"):
		return BareRefusal()
	}
	return nil
}

func userFactors(c *world.Call) (any, error) {
	_, realm, _ := strings.Cut(c.Param("userid"), "@")
	if c.State.Access.Realm(realm) == nil {
		return nil, answer.Die("auth domain '%s' does not exist", realm)
	}
	if c.Params.Bool("multiple") {
		return map[string]any{"types": []string{}}, nil
	}
	return map[string]any{}, nil
}

// noTicket is what asks for a ticket without saying who one is: the web interface
// does, to see whether the API is there.
func noTicket(c *world.Call) (any, error) { return nil, nil }

func factors(c *world.Call) (any, error) {
	return factorsOf(c.State.Access.Users[c.Param("userid")]), nil
}

// factorsOf are a user's second factors, as Proxmox lists them.
func factorsOf(u model.User) []any {
	if !u.TOTP {
		return []any{}
	}
	return []any{map[string]any{"type": "totp", "id": "6f2a8a4e-0000-4000-8000-000000000001", "description": "phone", "created": 946684800}}
}

func listFactors(c *world.Call) (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.State.Access.Users)) {
		if id == c.Who.ID || CanAny(c.State, c.Who, "/access/groups", "User.Modify", "Sys.Audit") {
			out = append(out, map[string]any{"userid": id, "entries": factorsOf(c.State.Access.Users[id])})
		}
	}
	return out, nil
}

func listGroups(c *world.Call) (any, error) {
	out := []any{}
	for _, g := range slices.Sorted(maps.Keys(c.State.Access.Groups)) {
		if !CanAny(c.State, c.Who, "/access/groups/"+g, "User.Modify", "Sys.Audit", "Group.Allocate") {
			continue
		}
		e := map[string]any{"groupid": g, "users": strings.Join(slices.Sorted(maps.Keys(c.State.Access.Groups[g])), ",")}
		if note := c.State.Access.Notes[g]; note != "" {
			e["comment"] = note
		}
		out = append(out, e)
	}
	return out, nil
}

func createGroup(c *world.Call) (any, error) {
	g := c.Param("groupid")
	if c.State.Access.Groups[g] != nil {
		return nil, answer.UserConfig("create group failed", answer.Die("group '%s' already exists", g))
	}
	c.State.Access.Groups[g] = map[string]bool{}
	c.State.Access.Describe(g, c.Param("comment"))
	return nil, nil
}

func getGroup(c *world.Call) (any, error) {
	g := c.Param("groupid")
	members := c.State.Access.Groups[g]
	if members == nil {
		return nil, answer.Die("group '%s' does not exist", g)
	}
	e := map[string]any{"members": append([]string{}, slices.Sorted(maps.Keys(members))...)}
	if note := c.State.Access.Notes[g]; note != "" {
		e["comment"] = note
	}
	return e, nil
}

func updateGroup(c *world.Call) (any, error) {
	g := c.Param("groupid")
	if c.State.Access.Groups[g] == nil {
		return nil, answer.UserConfig("update group failed", answer.Die("group '%s' does not exist", g))
	}
	if c.Params.Has("comment") {
		c.State.Access.Describe(g, c.Param("comment"))
	}
	return nil, nil
}

func deleteGroup(c *world.Call) (any, error) {
	g := c.Param("groupid")
	if c.State.Access.Groups[g] == nil {
		return nil, answer.UserConfig("delete group failed", answer.Die("group '%s' does not exist", g))
	}
	delete(c.State.Access.Groups, g)
	delete(c.State.Access.Notes, g)
	c.State.ForgetWho("@" + g)
	return nil, nil
}
