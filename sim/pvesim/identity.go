package pvesim

import "strings"

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

func (a *access) setRole(id string, privs []string) {
	set := map[string]bool{}
	for _, p := range privs {
		set[p] = true
	}
	a.roles[id] = set
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
