package pvesim

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func (c *call) listPools() (any, error) {
	out := []any{}
	if id := c.param("poolid"); id != "" {
		one, err := c.poolInfo(id)
		if err != nil {
			return nil, err
		}
		one["poolid"] = id
		return append(out, one), nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.s.pools)) {
		if !c.s.can(c.who, "/pool/"+id, "Pool.Audit") {
			continue
		}
		entry := map[string]any{"poolid": id}
		if comment := c.s.pools[id].comment; comment != "" {
			entry["comment"] = comment
		}
		out = append(out, entry)
	}
	return out, nil
}

// poolInfo is a pool with its members, anyone who asks (PVE/API2/Pool.pm, index).
func (c *call) poolInfo(id string) (map[string]any, error) {
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

// getPool is the older way to ask for one pool.
func (c *call) getPool() (any, error) {
	out, err := c.poolInfo(c.param("poolid"))
	if err != nil {
		return nil, err
	}
	out["poolid"] = c.param("poolid")
	return out, nil
}

// members are the machines and the storages of a pool.
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
	if leaf := id[strings.LastIndexByte(id, '/')+1:]; !letter.MatchString(leaf) {
		return nil, die("create pool failed: pool name must start with a letter")
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
		if err := c.changeStored(p, name); err != nil {
			return nil, userConfig("update pools failed", err)
		}
	}
	return nil, nil
}

var letter = regexp.MustCompile(`^[A-Za-z]`)

// changeStored puts a storage into a pool, or takes it out; nobody asks whether there
// is one.
func (c *call) changeStored(p *pool, name string) error {
	if where := "/storage/" + name; !c.s.mayModify(c.who, where) {
		return refuse(where, modifiers(where)...)
	}
	i := slices.Index(p.storages, name)
	switch {
	case c.p.bool("delete") && i < 0:
		return die("Storage '%s' is not a pool member", name)
	case c.p.bool("delete"):
		p.storages = slices.Delete(p.storages, i, i+1)
	case i >= 0:
		return die("Storage '%s' is already a pool member", name)
	default:
		p.storages = append(p.storages, name)
	}
	return nil
}

// putInto notes that a VMID is in a pool, or in none.
func (s *state) putInto(vmid int, id string) {
	for _, p := range s.pools {
		delete(p.absent, vmid)
	}
	switch v := s.vms[vmid]; {
	case v != nil:
		v.pool = id
	case id != "" && s.pools[id].absent == nil:
		s.pools[id].absent = map[int]bool{vmid: true}
	case id != "":
		s.pools[id].absent[vmid] = true
	}
}

// changeMember puts a VM into a pool, or takes it out.
func (c *call) changeMember(pool, item string) error {
	if where := "/vms/" + item; !c.s.mayModify(c.who, where) {
		return refuse(where, modifiers(where)...)
	}
	switch is := c.s.memberOf(atoi(item)); {
	case c.p.bool("delete") && is != pool:
		return die("VM %s is not a pool member", item)
	case c.p.bool("delete"):
		c.s.putInto(atoi(item), "")
	case is == pool:
		return die("VM %s is already a pool member", item)
	case is != "" && !c.p.bool("allow-move"):
		return die("VM %s belongs already to pool '%s' and 'allow-move' is not set", item, is)
	case is != "" && !c.s.can(c.who, "/pool/"+is, "Pool.Allocate"):
		return refuse("/pool/"+is, "Pool.Allocate")
	default:
		c.s.putInto(atoi(item), pool)
	}
	return nil
}

func (c *call) deletePool() (any, error) {
	id := c.param("poolid")
	if c.s.pools[id] == nil {
		return nil, die("delete pool failed: pool '%s' does not exist", id)
	}
	for _, sub := range slices.Sorted(maps.Keys(c.s.pools)) {
		if parent, _, nested := cutLast(sub, "/"); nested && parent == id {
			return nil, die("delete pool failed: pool '%s' is not empty (contains pool '%s')", id, sub)
		}
	}
	for _, v := range c.s.sorted() {
		if v.pool == id {
			return nil, die("delete pool failed: pool '%s' is not empty (contains VM %d)", id, v.id)
		}
	}
	all, _ := c.s.storagesByName()
	for _, name := range slices.Sorted(slices.Values(c.s.pools[id].storages)) {
		if all[name] != nil {
			return nil, die("delete pool failed: pool '%s' is not empty (contains storage '%s')", id, name)
		}
	}
	delete(c.s.pools, id)
	c.s.forgetACLs("/pool/" + id)
	return nil, nil
}

// cutLast cuts at the last of a separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// forgetACLs drops what was granted on a path that is gone.
func (s *state) forgetACLs(path string) {
	s.access.acls = slices.DeleteFunc(s.access.acls, func(a ACL) bool { return a.Path == path })
}

// needPool refuses a pool that is not there, which Proxmox words as a permission.
func (c *call) needPool() error {
	if id := c.param("pool"); id != "" && c.s.pools[id] == nil {
		return fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (pool '%s' does not exist)", id))
	}
	return nil
}
