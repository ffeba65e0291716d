package pvesim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// pool is a named group of machines; who is in it stands in the machines.
type pool struct {
	comment  string
	storages []string
}

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
			entry["members"] = c.members(id)
		}
		out = append(out, entry)
	}
	if c.p.has("poolid") && len(out) == 0 {
		return nil, die("pool '%s' does not exist", c.param("poolid"))
	}
	return out, nil
}

// getPool is the older way to ask for one pool with its members.
func (c *call) getPool() (any, error) {
	id := c.param("poolid")
	p := c.s.pools[id]
	if p == nil {
		return nil, die("pool '%s' does not exist", id)
	}
	out := map[string]any{"members": c.members(id)}
	if p.comment != "" {
		out["comment"] = p.comment
	}
	return out, nil
}

// members are the machines and the storages of a pool that the asker may see.
func (c *call) members(id string) []any {
	out := []any{}
	for _, v := range c.s.sorted() {
		if v.pool == id && c.param("type") != "storage" && c.param("type") != "lxc" {
			m := c.s.resource(v)
			delete(m, "pool")
			delete(m, "tags")
			out = append(out, m)
		}
	}
	if t := c.param("type"); t != "" && t != "storage" {
		return out
	}
	for _, name := range c.s.pools[id].storages {
		for _, node := range c.s.nodes() {
			if st := c.s.hosts[node].storages[name]; st != nil {
				out = append(out, map[string]any{"type": "storage", "id": "storage/" + node + "/" + name, "node": node, "storage": name, "plugintype": st.Type,
					"status": "available", "shared": boolInt(st.Shared), "content": strings.Join(st.Content, ","), "maxdisk": int64(st.Size), "disk": st.usedBytes()})
			}
		}
	}
	return out
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
		if err := c.changeMember(id, item); err != nil {
			return nil, userConfig("update pools failed", err)
		}
	}
	for _, name := range splitList(c.param("storage")) {
		i := slices.Index(p.storages, name)
		all, _ := c.s.storagesByName()
		switch {
		case !c.s.can(c.who, "/storage/"+name, "Datastore.Allocate"):
			return nil, userConfig("update pools failed", refuse("/storage/"+name, "Datastore.Allocate"))
		case all[name] == nil:
			return nil, userConfig("update pools failed", die("storage '%s' does not exist", name))
		case c.p.bool("delete") && i < 0:
			return nil, userConfig("update pools failed", die("Storage '%s' is not a pool member", name))
		case c.p.bool("delete"):
			p.storages = slices.Delete(p.storages, i, i+1)
		case i >= 0:
			return nil, userConfig("update pools failed", die("Storage '%s' is already a pool member", name))
		default:
			p.storages = append(p.storages, name)
		}
	}
	return nil, nil
}

// changeMember puts a VM into a pool, or takes it out.
func (c *call) changeMember(pool, item string) error {
	v := c.s.vms[atoi(item)]
	switch {
	case v == nil:
		return die("VM %s does not exist", item)
	case !c.s.can(c.who, "/vms/"+item, "VM.Allocate"):
		return refuse("/vms/"+item, "VM.Allocate")
	case c.p.bool("delete") && v.pool != pool:
		return die("VM %s is not a pool member", item)
	case c.p.bool("delete"):
		v.pool = ""
	case v.pool == pool:
		return die("VM %s is already a pool member", item)
	case v.pool != "" && !c.p.bool("allow-move"):
		return die("VM %s belongs already to pool '%s' and 'allow-move' is not set", item, v.pool)
	default:
		v.pool = pool
	}
	return nil
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
	if n := c.s.pools[id].storages; len(n) > 0 {
		return nil, die("delete pool failed: pool '%s' is not empty (contains storage '%s')", id, n[0])
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
