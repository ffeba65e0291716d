package world

import (
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Identity is who asks: a user or a token. Only literal root@pam is root.
type Identity struct{ ID string }

// Root reports whether it is root@pam itself, and no token.
func (i Identity) Root() bool { return i.ID == "root@pam" }

// Token reports whether it is a token.
func (i Identity) Token() bool { return strings.Contains(i.ID, "!") }

// User returns the user, of a token its owner.
func (i Identity) User() string {
	user, _, _ := strings.Cut(i.ID, "!")
	return user
}

// Access is who may do what.
type Access struct {
	Roles      map[string]map[string]bool
	Users      map[string]model.User
	Tokens     map[string]model.Token
	FirstToken model.Token
	ACLs       []model.ACL
	Groups     map[string]map[string]bool // members by name
	directory
	Tickets map[string]Ticket
}

// Ticket is what a login gets: who it is for, and what a change needs beside it.
type Ticket struct {
	User, CSRF string
	Made       time.Time
}

// TicketLifetime is how long a ticket is one (PVE/AccessControl.pm).
const TicketLifetime = 2 * time.Hour

// Ticket returns a ticket that is still one.
func (a *Access) Ticket(id string) (Ticket, bool) {
	t, known := a.Tickets[id]
	return t, known && time.Since(t.Made) <= TicketLifetime
}

// SetRole makes a role, or replaces what it grants.
func (a *Access) SetRole(id string, privs []string) {
	set := map[string]bool{}
	for _, p := range privs {
		set[p] = true
	}
	a.Roles[id] = set
}

// RolesOf returns the roles that somebody has on a path, and whether each reaches
// below it: those granted deepest replace those from above, at one depth a user's
// own replace those of its groups (PVE/AccessControl.pm, roles). Roles of pools and
// of a token's user are not among them.
func (a *Access) RolesOf(who, p string) map[string]bool {
	best, own, roles := -1, false, map[string]bool{}
	for _, acl := range a.ACLs {
		group, isGroup := strings.CutPrefix(acl.Who, "@")
		if acl.Who != who && (!isGroup || !a.Groups[group][who]) {
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
