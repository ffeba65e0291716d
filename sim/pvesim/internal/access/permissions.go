package access

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// privileges returns what somebody may do on a path, and whether it reaches below:
// a token that is separated has what both it and its user have
// (PVE/RPCEnvironment.pm, permissions).
func privileges(s *world.State, who world.Identity, p string) map[string]bool {
	a := &s.Access
	user := world.Identity{ID: who.User()}
	if who.Token() && !a.Tokens[who.ID].PrivSep {
		who = user
	}
	if who.Root() {
		return maps.Clone(a.Roles["Administrator"])
	}
	out := map[string]bool{}
	for role, propagates := range pooledRoles(s, who.ID, p) {
		for priv := range a.Roles[role] {
			out[priv] = out[priv] || propagates
		}
	}
	if !who.Token() || user.Root() {
		return out
	}
	users := privileges(s, user, p)
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
func pooledRoles(s *world.State, who, p string) map[string]bool {
	roles := s.Access.RolesOf(who, p)
	pools := poolsWith(s, p)
	if _, none := roles["NoAccess"]; none || len(pools) == 0 {
		return roles
	}
	for _, id := range pools {
		pooled := s.Access.RolesOf(who, "/pool/"+id)
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
func poolsWith(s *world.State, p string) (ids []string) {
	if id, isVM := strings.CutPrefix(p, "/vms/"); isVM {
		if pool := s.MemberOf(schema.Atoi(id)); pool != "" {
			ids = []string{pool}
		}
		return ids
	}
	if name, isStorage := strings.CutPrefix(p, "/storage/"); isStorage {
		for id, pool := range s.Pools {
			if slices.Contains(pool.Storages, name) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Can reports whether somebody has a privilege on a path: that of privileges,
// which is asked for thousands of times.
func Can(s *world.State, who world.Identity, p, priv string) bool {
	a := &s.Access
	if who.Token() && !a.Tokens[who.ID].PrivSep {
		who = world.Identity{ID: who.User()}
	}
	if who.Root() {
		return a.Roles["Administrator"][priv]
	}
	for role := range pooledRoles(s, who.ID, p) {
		if a.Roles[role][priv] {
			return !who.Token() || Can(s, world.Identity{ID: who.User()}, p, priv)
		}
	}
	return false
}

// CanAny reports whether somebody has one of some privileges on a path.
func CanAny(s *world.State, who world.Identity, p string, privs ...string) bool {
	return slices.ContainsFunc(privs, func(priv string) bool { return Can(s, who, p, priv) })
}

// Need returns a refusal that names path and privilege, as Proxmox words it.
func Need(s *world.State, who world.Identity, p string, privs ...string) error {
	if CanAny(s, who, p, privs...) {
		return nil
	}
	return Refuse(p, privs...)
}

// NeedAll refuses with the first privilege that is missing.
func NeedAll(s *world.State, who world.Identity, p string, privs []string) error {
	for _, priv := range privs {
		if !Can(s, who, p, priv) {
			return Refuse(p, priv)
		}
	}
	return nil
}

// Refuse is a refusal that names path and privileges.
func Refuse(p string, privs ...string) error {
	return answer.Fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (%s, %s)", p, strings.Join(privs, "|")))
}

// BareRefusal is a refusal that names nothing.
func BareRefusal() error { return answer.Fail(http.StatusForbidden, "Permission check failed") }

// permissions is what somebody may do, by path: the paths that are always named,
// and those that anything is granted on (get_effective_permissions).
func permissions(c *world.Call) (any, error) {
	who := c.Who
	if id := c.Param("userid"); id != "" && id != who.ID {
		if !strings.HasPrefix(id, who.ID+"!") && !Can(c.State, who, "/access", "Sys.Audit") {
			return nil, Refuse("/access", "Sys.Audit")
		}
		who = world.Identity{ID: id}
	}
	paths := []string{"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"}
	if p := c.Param("path"); p != "" {
		paths = []string{p}
	} else {
		for _, acl := range c.State.Access.ACLs { // and what is above it
			for i, r := range acl.Path + "/" {
				if r == '/' && i > 0 {
					paths = append(paths, acl.Path[:i])
				}
			}
		}
		for _, v := range c.State.VMs {
			if v.Pool != "" {
				paths = append(paths, "/vms/"+strconv.Itoa(v.ID))
			}
		}
		for _, pool := range c.State.Pools {
			for vmid := range pool.Absent {
				paths = append(paths, "/vms/"+strconv.Itoa(vmid))
			}
			for _, name := range pool.Storages {
				paths = append(paths, "/storage/"+name)
			}
		}
	}
	out := map[string]map[string]int{}
	for _, p := range paths {
		privs := map[string]int{}
		for priv, propagates := range privileges(c.State, who, p) {
			privs[priv] = answer.Flag(propagates)
		}
		if len(privs) > 0 || c.Params.Has("path") {
			out[p] = privs
		}
	}
	return out, nil
}
