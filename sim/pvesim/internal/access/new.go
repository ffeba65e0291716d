package access

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// New is who a model lets in, and what they may do.
func New(m model.Model) world.Access {
	a := world.Access{Roles: map[string]map[string]bool{}, Users: map[string]model.User{}, Tokens: map[string]model.Token{},
		Groups: map[string]map[string]bool{}, ACLs: slices.Clone(m.ACLs), Tickets: map[string]world.Ticket{}}
	for id, privs := range builtInRoles(!strings.HasPrefix(m.Version, "8.")) {
		a.SetRole(id, privs)
	}
	a.Users["root@pam"] = model.User{ID: "root@pam"}
	for _, r := range m.Roles {
		a.SetRole(r.ID, r.Privs)
	}
	for _, u := range m.Users {
		a.Users[u.ID] = u
	}
	for _, t := range m.Tokens {
		if a.FirstToken.ID == "" {
			a.FirstToken = t
		}
		a.Tokens[t.ID] = t
	}
	fill(&a, m)
	return a
}

// fill takes over what a model says of people.
func fill(a *world.Access, m model.Model) {
	put := func(id, comment string, expire int64) {
		if comment != "" {
			a.About(id)["comment"] = comment
		}
		if expire != 0 {
			a.About(id)["expire"] = strconv.FormatInt(expire, 10)
		}
	}
	for _, u := range m.Users {
		put(u.ID, u.Comment, u.Expire)
		if u.Disabled {
			a.About(u.ID)["enable"] = "0"
		}
	}
	for _, t := range m.Tokens {
		put(t.ID, t.Comment, t.Expire)
	}
	for _, g := range m.Groups {
		a.Groups[g.ID] = map[string]bool{}
		for _, u := range g.Users {
			a.Groups[g.ID][u] = true
		}
		a.Describe(g.ID, g.Comment)
	}
}
