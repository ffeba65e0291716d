package pvesim

import (
	"slices"
	"strconv"
	"strings"
)

// newAccess is who a model lets in, and what they may do.
func newAccess(m Model) access {
	a := access{roles: map[string]map[string]bool{}, users: map[string]User{}, tokens: map[string]Token{},
		groups: map[string]map[string]bool{}, acls: slices.Clone(m.ACLs), tickets: map[string]ticket{}}
	for id, privs := range builtInRoles(!strings.HasPrefix(m.Version, "8.")) {
		a.setRole(id, privs)
	}
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
	a.fill(m)
	return a
}

// fill takes over what a model says of people.
func (a *access) fill(m Model) {
	put := func(id, comment string, expire int64) {
		if comment != "" {
			a.about(id)["comment"] = comment
		}
		if expire != 0 {
			a.about(id)["expire"] = strconv.FormatInt(expire, 10)
		}
	}
	for _, u := range m.Users {
		put(u.ID, u.Comment, u.Expire)
		if u.Disabled {
			a.about(u.ID)["enable"] = "0"
		}
	}
	for _, t := range m.Tokens {
		put(t.ID, t.Comment, t.Expire)
	}
	for _, g := range m.Groups {
		a.groups[g.ID] = map[string]bool{}
		for _, u := range g.Users {
			a.groups[g.ID][u] = true
		}
		a.directory.describe(g.ID, g.Comment)
	}
}
