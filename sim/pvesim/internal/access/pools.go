package access

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func listPools(c *world.Call) (any, error) {
	out := []any{}
	if id := c.Param("poolid"); id != "" {
		one, err := poolInfo(c, id)
		if err != nil {
			return nil, err
		}
		one["poolid"] = id
		return append(out, one), nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.State.Pools)) {
		if !Can(c.State, c.Who, "/pool/"+id, "Pool.Audit") {
			continue
		}
		entry := map[string]any{"poolid": id}
		if comment := c.State.Pools[id].Comment; comment != "" {
			entry["comment"] = comment
		}
		out = append(out, entry)
	}
	return out, nil
}

// poolInfo is a pool with its members, anyone who asks (PVE/API2/Pool.pm, index).
func poolInfo(c *world.Call, id string) (map[string]any, error) {
	p := c.State.Pools[id]
	if p == nil {
		return nil, answer.Die("pool '%s' does not exist", id)
	}
	out := map[string]any{"members": members(c, id)}
	if p.Comment != "" {
		out["comment"] = p.Comment
	}
	return out, nil
}

// getPool is the older way to ask for one pool.
func getPool(c *world.Call) (any, error) {
	out, err := poolInfo(c, c.Param("poolid"))
	if err != nil {
		return nil, err
	}
	out["poolid"] = c.Param("poolid")
	return out, nil
}

// members are the machines and the storages of a pool.
func members(c *world.Call, id string) []any {
	out := []any{}
	for _, v := range c.State.VMsByID() {
		if v.Pool == id && c.Param("type") != "storage" && c.Param("type") != "lxc" {
			m := c.State.Resource(v)
			delete(m, "pool")
			delete(m, "tags")
			out = append(out, m)
		}
	}
	if t := c.Param("type"); t != "" && t != "storage" {
		return out
	}
	for _, name := range c.State.Pools[id].Storages {
		for _, node := range c.State.Nodes() {
			if st := c.State.Hosts[node].Stores[name]; st != nil {
				out = append(out, map[string]any{"type": "storage", "id": "storage/" + node + "/" + name, "node": node, "storage": name, "plugintype": st.Type,
					"status": "available", "shared": answer.Flag(st.Shared), "content": strings.Join(st.Content, ","), "maxdisk": int64(st.Size), "disk": st.UsedBytes()})
			}
		}
	}
	return out
}

func createPool(c *world.Call) (any, error) {
	id := c.Param("poolid")
	if c.State.Pools[id] != nil {
		return nil, answer.Die("create pool failed: pool '%s' already exists", id)
	}
	if i := strings.LastIndexByte(id, '/'); i >= 0 && c.State.Pools[id[:i]] == nil {
		return nil, answer.Die("create pool failed: parent '%s' of pool '%s' does not exist", id[:i], id)
	}
	if leaf := id[strings.LastIndexByte(id, '/')+1:]; !letter.MatchString(leaf) {
		return nil, answer.Die("create pool failed: pool name must start with a letter")
	}
	c.State.Pools[id] = &world.Pool{Comment: c.Param("comment")}
	return nil, nil
}

func updatePool(c *world.Call) (any, error) {
	id := c.Param("poolid")
	p := c.State.Pools[id]
	if p == nil {
		return nil, answer.Die("update pools failed: pool '%s' does not exist", id)
	}
	if c.Params.Has("comment") {
		p.Comment = c.Param("comment")
	}
	for _, item := range schema.SplitList(c.Param("vms")) {
		if err := changeMember(c, id, item); err != nil {
			return nil, answer.UserConfig("update pools failed", err)
		}
	}
	for _, name := range schema.SplitList(c.Param("storage")) {
		if err := changeStored(c, p, name); err != nil {
			return nil, answer.UserConfig("update pools failed", err)
		}
	}
	return nil, nil
}

var letter = regexp.MustCompile(`^[A-Za-z]`)

// changeStored puts a storage into a pool, or takes it out; nobody asks whether there
// is one.
func changeStored(c *world.Call, p *world.Pool, name string) error {
	if where := "/storage/" + name; !mayModify(c.State, c.Who, where) {
		return Refuse(where, modifiers(where)...)
	}
	i := slices.Index(p.Storages, name)
	switch {
	case c.Params.Bool("delete") && i < 0:
		return answer.Die("Storage '%s' is not a pool member", name)
	case c.Params.Bool("delete"):
		p.Storages = slices.Delete(p.Storages, i, i+1)
	case i >= 0:
		return answer.Die("Storage '%s' is already a pool member", name)
	default:
		p.Storages = append(p.Storages, name)
	}
	return nil
}

// putInto notes that a VMID is in a pool, or in none.
func putInto(s *world.State, vmid int, id string) {
	for _, p := range s.Pools {
		delete(p.Absent, vmid)
	}
	switch v := s.VMs[vmid]; {
	case v != nil:
		v.Pool = id
	case id != "" && s.Pools[id].Absent == nil:
		s.Pools[id].Absent = map[int]bool{vmid: true}
	case id != "":
		s.Pools[id].Absent[vmid] = true
	}
}

// changeMember puts a VM into a pool, or takes it out.
func changeMember(c *world.Call, pool, item string) error {
	if where := "/vms/" + item; !mayModify(c.State, c.Who, where) {
		return Refuse(where, modifiers(where)...)
	}
	switch is := c.State.MemberOf(schema.Atoi(item)); {
	case c.Params.Bool("delete") && is != pool:
		return answer.Die("VM %s is not a pool member", item)
	case c.Params.Bool("delete"):
		putInto(c.State, schema.Atoi(item), "")
	case is == pool:
		return answer.Die("VM %s is already a pool member", item)
	case is != "" && !c.Params.Bool("allow-move"):
		return answer.Die("VM %s belongs already to pool '%s' and 'allow-move' is not set", item, is)
	case is != "" && !Can(c.State, c.Who, "/pool/"+is, "Pool.Allocate"):
		return Refuse("/pool/"+is, "Pool.Allocate")
	default:
		putInto(c.State, schema.Atoi(item), pool)
	}
	return nil
}

func deletePool(c *world.Call) (any, error) {
	id := c.Param("poolid")
	if c.State.Pools[id] == nil {
		return nil, answer.Die("delete pool failed: pool '%s' does not exist", id)
	}
	for _, sub := range slices.Sorted(maps.Keys(c.State.Pools)) {
		if parent, _, nested := cutLast(sub, "/"); nested && parent == id {
			return nil, answer.Die("delete pool failed: pool '%s' is not empty (contains pool '%s')", id, sub)
		}
	}
	for _, v := range c.State.VMsByID() {
		if v.Pool == id {
			return nil, answer.Die("delete pool failed: pool '%s' is not empty (contains VM %d)", id, v.ID)
		}
	}
	all, _ := c.State.StoragesByName()
	for _, name := range slices.Sorted(slices.Values(c.State.Pools[id].Storages)) {
		if all[name] != nil {
			return nil, answer.Die("delete pool failed: pool '%s' is not empty (contains storage '%s')", id, name)
		}
	}
	delete(c.State.Pools, id)
	ForgetACLs(c.State, "/pool/"+id)
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

// ForgetACLs drops what was granted on a path that is gone.
func ForgetACLs(s *world.State, path string) {
	s.Access.ACLs = slices.DeleteFunc(s.Access.ACLs, func(a model.ACL) bool { return a.Path == path })
}

// NeedPool refuses a pool that is not there, which Proxmox words as a permission.
func NeedPool(c *world.Call) error {
	if id := c.Param("pool"); id != "" && c.State.Pools[id] == nil {
		return answer.Fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (pool '%s' does not exist)", id))
	}
	return nil
}
