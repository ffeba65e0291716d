package pvesim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// privileges returns what somebody may do on a path, and whether it reaches below:
// a token that is separated has what both it and its user have
// (PVE/RPCEnvironment.pm, permissions).
func (s *state) privileges(who identity, p string) map[string]bool {
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

// pooledRoles adds to the roles on a machine or a storage those on the pool that it is
// in, which never propagate.
func (s *state) pooledRoles(who, p string) map[string]bool {
	roles := s.access.rolesOf(who, p)
	pools := s.poolsWith(p)
	if _, none := roles["NoAccess"]; none || len(pools) == 0 {
		return roles
	}
	for _, id := range pools {
		pooled := s.access.rolesOf(who, "/pool/"+id)
		if _, none := pooled["NoAccess"]; none {
			return map[string]bool{"NoAccess": false}
		}
		for role := range pooled {
			if _, there := roles[role]; !there {
				roles[role] = false
			}
		}
	}
	return roles
}

// poolsWith are the pools that the machine or the storage of a path is in.
func (s *state) poolsWith(p string) (ids []string) {
	if id, isVM := strings.CutPrefix(p, "/vms/"); isVM {
		if pool := s.memberOf(atoi(id)); pool != "" {
			ids = []string{pool}
		}
		return ids
	}
	if name, isStorage := strings.CutPrefix(p, "/storage/"); isStorage {
		for id, pool := range s.pools {
			if slices.Contains(pool.storages, name) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// can reports whether somebody has a privilege on a path: that of privileges,
// which is asked for thousands of times.
func (s *state) can(who identity, p, priv string) bool {
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

func (s *state) canAny(who identity, p string, privs ...string) bool {
	return slices.ContainsFunc(privs, func(priv string) bool { return s.can(who, p, priv) })
}

// need returns a refusal that names path and privilege, as Proxmox words it.
func (s *state) need(who identity, p string, privs ...string) error {
	if s.canAny(who, p, privs...) {
		return nil
	}
	return refuse(p, privs...)
}

// needAll refuses with the first privilege that is missing.
func (s *state) needAll(who identity, p string, privs []string) error {
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
		for _, acl := range c.s.access.acls { // and what is above it
			for i, r := range acl.Path + "/" {
				if r == '/' && i > 0 {
					paths = append(paths, acl.Path[:i])
				}
			}
		}
		for _, v := range c.s.vms {
			if v.pool != "" {
				paths = append(paths, "/vms/"+strconv.Itoa(v.id))
			}
		}
		for _, pool := range c.s.pools {
			for vmid := range pool.absent {
				paths = append(paths, "/vms/"+strconv.Itoa(vmid))
			}
			for _, name := range pool.storages {
				paths = append(paths, "/storage/"+name)
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
