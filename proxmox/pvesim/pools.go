package pvesim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// pool is a named group of machines; who is in it stands in the machines.
type pool struct{ comment string }

func (c *call) listPools() (any, error) {
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.s.pools)) {
		if want := c.param("poolid"); want != "" && want != id {
			continue
		}
		if !c.s.can(c.who, "/pool/"+id, "Pool.Audit") {
			continue
		}
		entry := map[string]any{"poolid": id}
		if comment := c.s.pools[id].comment; comment != "" {
			entry["comment"] = comment
		}
		if c.p.has("poolid") {
			members := []any{}
			for _, v := range c.s.sorted() {
				if v.pool == id {
					m := c.s.resource(v)
					delete(m, "pool")
					delete(m, "tags")
					members = append(members, m)
				}
			}
			entry["members"] = members
		}
		out = append(out, entry)
	}
	if c.p.has("poolid") && len(out) == 0 {
		return nil, die("pool '%s' does not exist", c.param("poolid"))
	}
	return out, nil
}

func (c *call) createPool() (any, error) {
	id := c.param("poolid")
	if c.s.pools[id] != nil {
		return nil, die("create pool failed: pool '%s' already exists", id)
	}
	if i := strings.LastIndexByte(id, '/'); i >= 0 && c.s.pools[id[:i]] == nil {
		return nil, die("create pool failed: parent '%s' of pool '%s' does not exist", id[:i], id)
	}
	c.s.pools[id] = &pool{comment: c.param("comment")}
	return nil, nil
}

func (c *call) updatePool() (any, error) {
	id := c.param("poolid")
	p := c.s.pools[id]
	if p == nil {
		return nil, die("update pools failed: pool '%s' does not exist", id)
	}
	if c.p.has("comment") {
		p.comment = c.param("comment")
	}
	for _, item := range splitList(c.param("vms")) {
		v := c.s.vms[atoi(item)]
		switch {
		case v == nil:
			return nil, die("update pools failed: VM %s does not exist", item)
		case !c.s.can(c.who, "/vms/"+item, "VM.Allocate"):
			return nil, die("update pools failed: 403 Permission check failed (/vms/%s, VM.Allocate)", item)
		case c.p.bool("delete") && v.pool != id:
			return nil, die("update pools failed: VM %s is not a pool member", item)
		case c.p.bool("delete"):
			v.pool = ""
		case v.pool == id:
			return nil, die("update pools failed: VM %s is already a pool member", item)
		default:
			v.pool = id
		}
	}
	return nil, nil
}

func (c *call) deletePool() (any, error) {
	id := c.param("poolid")
	if c.s.pools[id] == nil {
		return nil, die("delete pool failed: pool '%s' does not exist", id)
	}
	for _, v := range c.s.sorted() {
		if v.pool == id {
			return nil, die("delete pool failed: pool '%s' is not empty (contains VM %d)", id, v.id)
		}
	}
	delete(c.s.pools, id)
	c.s.forgetACLs("/pool/" + id)
	return nil, nil
}

// forgetACLs drops what was granted on a path that is gone.
func (s *Sim) forgetACLs(path string) {
	s.access.acls = slices.DeleteFunc(s.access.acls, func(a ACL) bool { return a.Path == path })
}

// needPool refuses a pool that is not there, which Proxmox words as a permission.
func (c *call) needPool() error {
	if id := c.param("pool"); id != "" && c.s.pools[id] == nil {
		return fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (pool '%s' does not exist)", id))
	}
	return nil
}
