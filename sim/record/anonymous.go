package record

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// aliases give each name another, the same wherever it stands.
type aliases map[string]string

// names makes aliases for a list: prefix and a number.
func names(prefix string, all []string) aliases {
	out := aliases{}
	for _, name := range all {
		if _, known := out[name]; !known {
			out[name] = prefix + strconv.Itoa(len(out)+1)
		}
	}
	return out
}

func (a aliases) alias(name string) string {
	if alias, ok := a[name]; ok {
		return alias
	}
	return name
}

// disguise is all names of a model and what they become.
type disguise struct {
	nodes, storages, pools, mappings, users, tokens, groups, roles aliases
	files                                                          aliases // volume IDs
}

// anonymize replaces what tells whose model it is.
func anonymize(m *pvesim.Model) {
	d := newDisguise(m)
	for i := range m.Hosts {
		d.host(&m.Hosts[i])
	}
	for i := range m.Mappings {
		d.mapping(&m.Mappings[i])
	}
	for i := range m.Pools {
		m.Pools[i] = pvesim.Pool{ID: d.pool(m.Pools[i].ID)}
	}
	for i := range m.VMs {
		d.machine(&m.VMs[i])
	}
	d.access(m)
}

func newDisguise(m *pvesim.Model) *disguise {
	var nodes, storages, pools, mappings, users, groups, roles []string
	d := &disguise{files: aliases{}, tokens: aliases{}}
	for _, h := range m.Hosts {
		nodes = append(nodes, h.Name)
		for _, st := range h.Storages {
			if st.Name != "local" { // as every host has
				storages = append(storages, st.Name)
			}
		}
	}
	for _, p := range m.Pools {
		for part := range strings.SplitSeq(p.ID, "/") {
			pools = append(pools, part)
		}
	}
	for _, pm := range m.Mappings {
		mappings = append(mappings, pm.ID)
	}
	for _, u := range m.Users {
		users = append(users, u.ID)
	}
	for _, g := range m.Groups {
		groups = append(groups, g.ID)
		users = append(users, g.Users...)
	}
	for _, t := range m.Tokens {
		user, _, _ := strings.Cut(t.ID, "!")
		users = append(users, user)
	}
	for _, a := range m.ACLs {
		if user, _, _ := strings.Cut(a.Who, "!"); !strings.HasPrefix(user, "@") {
			users = append(users, user)
		} else {
			groups = append(groups, user[1:])
		}
	}
	for _, r := range m.Roles {
		roles = append(roles, r.ID)
	}
	d.nodes, d.storages, d.pools, d.mappings = names("pve", nodes), names("storage", storages), names("pool", pools), names("mapping", mappings)
	d.groups, d.roles = names("group", groups), names("Role", roles)
	d.users = names("user", slices.DeleteFunc(users, func(u string) bool { return u == "root@pam" }))
	for u, alias := range d.users {
		d.users[u] = alias + "@pve"
	}
	for _, t := range m.Tokens {
		d.tokens[t.ID] = d.users.alias(strings.Split(t.ID, "!")[0]) + fmt.Sprintf("!token%d", len(d.tokens)+1)
	}
	return d
}

func (d *disguise) pool(id string) string {
	parts := strings.Split(id, "/")
	for i := range parts {
		parts[i] = d.pools.alias(parts[i])
	}
	return strings.Join(parts, "/")
}

func (d *disguise) host(h *pvesim.Host) {
	h.Name, h.CIDRs, h.Gateway = d.nodes.alias(h.Name), nil, ""
	for i := range h.Storages {
		st := &h.Storages[i]
		old := st.Name
		st.Name, st.Config = d.storages.alias(st.Name), nil
		for j := range st.Files {
			f := &st.Files[j]
			content, _, _ := strings.Cut(f.Name, "/")
			id := old + ":" + f.Name
			if d.files[id] == "" { // it may be on several nodes
				d.files[id] = fmt.Sprintf("%s:%s/file%d%s", st.Name, content, len(d.files)+1, extension(f.Name))
			}
			f.Name = strings.TrimPrefix(d.files[id], st.Name+":")
		}
	}
}

// extension keeps what Proxmox goes by, tar.gz and the like included.
func extension(name string) string {
	ext := path.Ext(name)
	if inner := path.Ext(strings.TrimSuffix(name, ext)); inner == ".tar" {
		return inner + ext
	}
	return ext
}

func (d *disguise) mapping(pm *pvesim.PCIMapping) {
	pm.ID, pm.Description = d.mappings.alias(pm.ID), ""
	for i, e := range pm.Map {
		parts := slices.DeleteFunc(strings.Split(e, ","), func(p string) bool { return strings.HasPrefix(p, "description=") })
		for j, p := range parts {
			if node, ok := strings.CutPrefix(p, "node="); ok {
				parts[j] = "node=" + d.nodes.alias(node)
			}
		}
		pm.Map[i] = strings.Join(parts, ",")
	}
}

func (d *disguise) access(m *pvesim.Model) {
	for i := range m.Roles {
		m.Roles[i].ID = d.roles.alias(m.Roles[i].ID)
	}
	for i := range m.Users {
		m.Users[i].ID, m.Users[i].Comment = d.users.alias(m.Users[i].ID), ""
	}
	for i := range m.Groups {
		g := &m.Groups[i]
		g.ID, g.Comment = d.groups.alias(g.ID), ""
		for j := range g.Users {
			g.Users[j] = d.users.alias(g.Users[j])
		}
	}
	for i := range m.Tokens {
		m.Tokens[i].ID, m.Tokens[i].Comment = d.tokens.alias(m.Tokens[i].ID), ""
	}
	for i := range m.ACLs {
		a := &m.ACLs[i]
		a.Path, a.Role = d.path(a.Path), d.roles.alias(a.Role)
		switch {
		case strings.HasPrefix(a.Who, "@"):
			a.Who = "@" + d.groups.alias(a.Who[1:])
		case d.tokens[a.Who] != "":
			a.Who = d.tokens[a.Who]
		case strings.Contains(a.Who, "!"): // a token that is gone
			a.Who = d.users.alias(strings.Split(a.Who, "!")[0]) + "!gone"
		default:
			a.Who = d.users.alias(a.Who)
		}
	}
}

// path is what rights are granted on.
func (d *disguise) path(p string) string {
	for prefix, rename := range map[string]func(string) string{
		"/nodes/": d.nodes.alias, "/storage/": d.storages.alias, "/pool/": d.pool, "/mapping/pci/": d.mappings.alias, "/access/groups/": d.groups.alias,
	} {
		if rest, ok := strings.CutPrefix(p, prefix); ok {
			return prefix + rename(rest)
		}
	}
	return p
}
