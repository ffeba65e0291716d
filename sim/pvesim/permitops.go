package pvesim

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// permittedUser evaluates the checks that are about users instead of paths
// (PVE/RPCEnvironment.pm, exec_api2_perm_check).
func (s *state) permittedUser(c *call, check []any) error {
	switch check[0] {
	case "userid-param":
		return s.userParam(c, check[1])
	case "userid-group":
		privs := s.translate(check[1].([]any))
		on := ""
		if len(check) > 3 && check[2] == "groups_param" {
			on, _ = check[3].(string)
		}
		return s.userGroup(c, privs, on)
	case "perm-modify":
		template, _ := check[1].(string)
		where := normalPath(fill(template, c.p))
		if where == "" { // the method itself refuses that
			return nil
		}
		return s.need(c.who, where, modifiers(where)...)
	}
	return bareRefusal()
}

// soundUser refuses what is not a name of a user (PVE/Auth/Plugin.pm, verify_username):
// permissions ask for it before the parameters are looked at.
func soundUser(name string) error {
	switch {
	case len(name) < 3:
		return die("user name '%s' is too short", name)
	case len(name) > 64:
		return die("user name '%s' is too long (%d > 64)", name, len(name))
	case !formats["pve-userid"].ok(name):
		return die("value '%s' does not look like a valid user name", name)
	}
	return nil
}

func (s *state) userParam(c *call, what any) error {
	user := c.param("userid")
	if err := soundUser(user); err != nil {
		return err
	}
	if what == "self" {
		switch {
		case s.access.users[user].ID == "":
			return die("no such user ('%s')", user)
		case c.who.id == user:
			return nil
		}
		return bareRefusal()
	}
	_, realm, _ := strings.Cut(user, "@")
	return s.need(c.who, "/access/realm/"+realm, "Realm.AllocateUser")
}

// userGroup asks for a privilege on the groups of a user, existing or to be set.
func (s *state) userGroup(c *call, privs []string, groupsOf string) error {
	user := c.param("userid")
	if err := soundUser(user); err != nil && groupsOf != "create" {
		return err
	}
	if groupsOf != "create" && s.access.users[user].ID == "" {
		return die("no such user ('%s')", user)
	}
	if s.canAny(c.who, "/access/groups", privs...) {
		return nil
	}
	if groupsOf != "" {
		wanted := splitList(c.param("groups"))
		if len(wanted) == 0 {
			return refuse("/access/groups", privs...)
		}
		for _, g := range wanted {
			if err := s.need(c.who, "/access/groups/"+g, privs...); err != nil {
				return err
			}
		}
	}
	if groupsOf == "create" || slices.ContainsFunc(s.groupsOf(user), func(g string) bool { return s.canAny(c.who, "/access/groups/"+g, privs...) }) {
		return nil
	}
	return bareRefusal()
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
func (s *state) mayModify(who identity, where string) bool {
	return s.canAny(who, where, modifiers(where)...)
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

// underUserLock runs a handler, under the lock of user.cfg where it writes that.
func (c *call) underUserLock(h handler) (any, error) {
	if c.method == http.MethodGet {
		return h(c)
	}
	what := userWriters()[c.route]
	if what == "" {
		return h(c)
	}
	unlock, err := c.worker().lock("file-user_cfg", false, userLockTimeout)
	var refused *apiError
	if errors.As(err, &refused) {
		return nil, die("%s: cfs-lock 'file-user_cfg' error: got lock request timeout", what)
	}
	if err != nil {
		return nil, err
	}
	defer unlock()
	return h(c)
}
