package access

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// permittedUser evaluates the checks that are about users instead of paths
// (PVE/RPCEnvironment.pm, exec_api2_perm_check).
func permittedUser(s *world.State, c *world.Call, check []any) error {
	switch check[0] {
	case "userid-param":
		return userParam(s, c, check[1])
	case "userid-group":
		privs := translate(s, check[1].([]any))
		on := ""
		if len(check) > 3 && check[2] == "groups_param" {
			on, _ = check[3].(string)
		}
		return userGroup(s, c, privs, on)
	case "perm-modify":
		template, _ := check[1].(string)
		where := normalPath(request.Fill(template, c.Params))
		if where == "" { // the method itself refuses that
			return nil
		}
		return Need(s, c.Who, where, modifiers(where)...)
	}
	return BareRefusal()
}

// soundUser refuses what is not a name of a user (PVE/Auth/Plugin.pm, verify_username):
// permissions ask for it before the parameters are looked at.
func soundUser(name string) error {
	switch {
	case len(name) < 3:
		return answer.Die("user name '%s' is too short", name)
	case len(name) > 64:
		return answer.Die("user name '%s' is too long (%d > 64)", name, len(name))
	case !schema.Formats["pve-userid"].OK(name):
		return answer.Die("value '%s' does not look like a valid user name", name)
	}
	return nil
}

func userParam(s *world.State, c *world.Call, what any) error {
	user := c.Param("userid")
	if err := soundUser(user); err != nil {
		return err
	}
	if what == "self" {
		switch {
		case s.Access.Users[user].ID == "":
			return answer.Die("no such user ('%s')", user)
		case c.Who.ID == user:
			return nil
		}
		return BareRefusal()
	}
	_, realm, _ := strings.Cut(user, "@")
	return Need(s, c.Who, "/access/realm/"+realm, "Realm.AllocateUser")
}

// userGroup asks for a privilege on the groups of a user, existing or to be set.
func userGroup(s *world.State, c *world.Call, privs []string, groupsOf string) error {
	user := c.Param("userid")
	if err := soundUser(user); err != nil && groupsOf != "create" {
		return err
	}
	if groupsOf != "create" && s.Access.Users[user].ID == "" {
		return answer.Die("no such user ('%s')", user)
	}
	if CanAny(s, c.Who, "/access/groups", privs...) {
		return nil
	}
	if groupsOf != "" {
		wanted := schema.SplitList(c.Param("groups"))
		if len(wanted) == 0 {
			return Refuse("/access/groups", privs...)
		}
		for _, g := range wanted {
			if err := Need(s, c.Who, "/access/groups/"+g, privs...); err != nil {
				return err
			}
		}
	}
	if groupsOf == "create" || slices.ContainsFunc(s.GroupsOf(user), func(g string) bool { return CanAny(s, c.Who, "/access/groups/"+g, privs...) }) {
		return nil
	}
	return BareRefusal()
}

// modifiers are the privileges of which one lets somebody grant rights on a path.
func modifiers(where string) []string {
	out := []string{"Permissions.Modify"}
	for prefix, priv := range map[string]string{"/storage/": "Datastore.Allocate", "/vms/": "VM.Allocate", "/pool/": "Pool.Allocate"} {
		if strings.HasPrefix(where, prefix) {
			out = append(out, priv)
		}
	}
	return out
}

// mayModify reports whether somebody may grant rights on a path.
func mayModify(s *world.State, who world.Identity, where string) bool {
	return CanAny(s, who, where, modifiers(where)...)
}

// userLockTimeout is how long Proxmox waits for the cluster's lock of user.cfg.
const userLockTimeout = 10 * time.Second

// userWriters are the methods that write user.cfg, under the cluster's lock for
// it, with what their errors begin with.
var userWriters = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"POST /access/users":                            "create user failed",
		"PUT /access/users/{userid}":                    "update user failed",
		"DELETE /access/users/{userid}":                 "delete user failed",
		"POST /access/users/{userid}/token/{tokenid}":   "generating token failed",
		"PUT /access/users/{userid}/token/{tokenid}":    "updating token info failed",
		"DELETE /access/users/{userid}/token/{tokenid}": "deleting token failed",
		"POST /access/groups":                           "create group failed",
		"PUT /access/groups/{groupid}":                  "update group failed",
		"DELETE /access/groups/{groupid}":               "delete group failed",
		"POST /access/roles":                            "create role failed",
		"PUT /access/roles/{roleid}":                    "update role failed",
		"DELETE /access/roles/{roleid}":                 "delete role failed",
		"PUT /access/acl":                               "ACL update failed",
		"POST /pools":                                   "create pool failed",
		"PUT /pools":                                    "update pools failed",
		"DELETE /pools":                                 "delete pool failed",
	}
})

// UnderUserLock runs a handler, under the lock of user.cfg where it writes that.
func UnderUserLock(c *world.Call, h world.Handler) (any, error) {
	if c.Method == http.MethodGet {
		return h(c)
	}
	what := userWriters()[c.Route]
	if what == "" {
		return h(c)
	}
	unlock, err := c.Worker().Lock("file-user_cfg", false, userLockTimeout)
	var refused *answer.Error
	if errors.As(err, &refused) {
		return nil, answer.Die("%s: cfs-lock 'file-user_cfg' error: got lock request timeout", what)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	return h(c)
}
