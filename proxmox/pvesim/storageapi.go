package pvesim

import (
	"maps"
	"slices"
	"strings"
)

func storageHandlers() map[string]handler {
	const store = "/nodes/{node}/storage/{storage}"
	return map[string]handler{
		"GET /storage":                         (*call).storageConfigs,
		"POST /storage":                        (*call).createStorage,
		"GET /storage/{storage}":               (*call).storageConfig,
		"PUT /storage/{storage}":               (*call).updateStorage,
		"DELETE /storage/{storage}":            (*call).deleteStorage,
		"GET " + store + "/rrddata":            (*call).storageHistory,
		"POST " + store + "/content":           (*call).allocateVolume,
		"PUT " + store + "/content/{volume}":   (*call).describeVolume,
		"POST " + store + "/content/{volume}":  (*call).copyVolumeTo,
		"GET /nodes/{node}/query-url-metadata": (*call).askURL,
	}
}

// sharedTypes are kinds of storage that every node sees the same of.
func sharedTypes() []string {
	return []string{"nfs", "cifs", "cephfs", "rbd", "iscsi", "iscsidirect", "pbs", "zfs", "glusterfs", "esxi"}
}

// storagesByName are the cluster's, each as one of the nodes that have it sees it.
func (s *Sim) storagesByName() (all map[string]*storage, nodes map[string][]string) {
	all, nodes = map[string]*storage{}, map[string][]string{}
	for _, node := range s.nodes() {
		for name, st := range s.hosts[node].storages {
			if all[name] == nil {
				all[name] = st
			}
			nodes[name] = append(nodes[name], node)
		}
	}
	return all, nodes
}

// storageSections is storage.cfg.
func (s *Sim) storageSections() map[string]map[string]any {
	all, nodes := s.storagesByName()
	out := map[string]map[string]any{}
	for name, st := range all {
		e := map[string]any{"storage": name, "type": st.Type, "content": strings.Join(st.Content, ",")}
		if st.fileBased() {
			e["path"] = st.dir()
		}
		for k, v := range st.Config {
			e[k] = s.typedAs("POST /storage", k, v)
		}
		if st.Shared && !slices.Contains(sharedTypes(), st.Type) || st.Shared && st.Type == "nfs" {
			e["shared"] = 1
		}
		if st.Disabled {
			e["disable"] = 1
		}
		if len(nodes[name]) < len(s.hosts) {
			e["nodes"] = strings.Join(nodes[name], ",")
		}
		out[name] = e
	}
	digest := digestOf(out)
	for _, e := range out {
		e["digest"] = digest
	}
	return out
}

func (c *call) storageConfigs() (any, error) {
	out := []any{}
	sections := c.s.storageSections()
	for _, name := range sortedKeys(sections) {
		if want := c.param("type"); want != "" && want != sections[name]["type"] {
			continue
		}
		if c.s.canAny(c.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") {
			out = append(out, sections[name])
		}
	}
	return out, nil
}

func (c *call) storageConfig() (any, error) {
	e := c.s.storageSections()[c.param("storage")]
	if e == nil {
		return nil, die("storage '%s' does not exist", c.param("storage"))
	}
	return e, nil
}

// requiredOptions are those without which a kind of storage cannot be.
func requiredOptions(kind string) []string {
	return map[string][]string{"dir": {"path"}, "btrfs": {"path"}, "nfs": {"server", "export"}, "cifs": {"server", "share"}, "zfspool": {"pool"},
		"lvm": {"vgname"}, "lvmthin": {"vgname", "thinpool"}, "iscsi": {"portal", "target"}, "pbs": {"server", "datastore"}}[kind]
}

// usualContent is what a kind of storage takes unless told otherwise.
func usualContent(kind string) []string {
	switch kind {
	case "dir", "btrfs":
		return []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets"}
	case "nfs", "cifs":
		return []string{"images"}
	case "pbs":
		return []string{"backup"}
	}
	return []string{"images", "rootdir"}
}

func (c *call) createStorage() (any, error) {
	name, kind := c.param("storage"), c.param("type")
	for _, k := range requiredOptions(kind) {
		if !c.p.has(k) {
			return nil, die("create storage failed: missing value for required option '%s'", k)
		}
	}
	if all, _ := c.s.storagesByName(); all[name] != nil {
		return nil, userConfig("create storage failed", die("storage ID '%s' already defined", name))
	}
	one := Storage{Name: name, Type: kind, Content: usualContent(kind), Size: TiB, Shared: slices.Contains(sharedTypes(), kind) || c.p.bool("shared"),
		Disabled: c.p.bool("disable"), Config: c.section("storage", "type", "content", "nodes", "disable", "shared", "password", "keyring", "encryption-key", "master-pubkey")}
	if c.p.has("content") {
		one.Content = contentOf(c.param("content"))
	}
	if err := c.spread(one, nil); err != nil {
		return nil, userConfig("create storage failed", err)
	}
	return map[string]any{"storage": name, "type": kind}, nil
}

// contentOf reads a list of content types; "none" is none.
func contentOf(s string) []string {
	return slices.DeleteFunc(splitList(s), func(t string) bool { return t == "none" })
}

// spread puts a storage onto the nodes that a call names, or all, where it is not
// yet; was holds what the nodes had of it.
func (c *call) spread(one Storage, was map[string]*storage) error {
	nodes := splitList(c.param("nodes"))
	for _, n := range nodes {
		if c.s.hosts[n] == nil {
			return die("no such node '%s'", n)
		}
	}
	if len(nodes) == 0 {
		nodes = c.s.nodes()
	}
	var shared *storage
	for _, n := range c.s.nodes() {
		h := c.s.hosts[n]
		switch {
		case !slices.Contains(nodes, n):
			delete(h.storages, one.Name)
		case was[n] != nil:
			h.storages[one.Name] = was[n]
		case one.Shared && shared != nil:
			h.storages[one.Name] = shared
		default:
			h.storages[one.Name] = &storage{Storage: one, host: n, volumes: map[string]*volume{}}
		}
		if one.Shared && h.storages[one.Name] != nil {
			shared = h.storages[one.Name]
			shared.host = ""
		}
	}
	return nil
}

func (c *call) updateStorage() (any, error) {
	name := c.param("storage")
	all, _ := c.s.storagesByName()
	st := all[name]
	const failed = "update storage failed"
	if st == nil {
		return nil, userConfig(failed, die("storage '%s' does not exist", name))
	}
	sections := c.s.storageSections()
	if d := c.param("digest"); d != "" && d != sections[name]["digest"] {
		return nil, userConfig(failed, die("detected modified configuration - file changed by other user? Try again."))
	}
	remove := splitList(c.param("delete"))
	for _, k := range remove {
		switch {
		case c.s.schema.Methods["POST /storage"].Parameters[k] == nil:
			return nil, userConfig(failed, die("no such option '%s'", k))
		case slices.Contains(requiredOptions(st.Type), k):
			return nil, userConfig(failed, die("unable to delete required option '%s'", k))
		case c.p.has(k):
			return nil, userConfig(failed, die("cannot set and delete property '%s' at the same time!", k))
		}
	}
	was := map[string]*storage{}
	for n, h := range c.s.hosts {
		if here := h.storages[name]; here != nil {
			c.changeStorage(here, remove)
			was[n] = here
		}
	}
	if c.p.has("nodes") || slices.Contains(remove, "nodes") {
		if err := c.spread(st.Storage, was); err != nil {
			return nil, userConfig(failed, err)
		}
	}
	return map[string]any{"storage": name, "type": st.Type}, nil
}

func (c *call) changeStorage(st *storage, remove []string) {
	st.Config = maps.Clone(st.Config)
	if st.Config == nil {
		st.Config = map[string]string{}
	}
	for _, k := range remove {
		switch delete(st.Config, k); k {
		case "content":
			st.Content = usualContent(st.Type)
		case "disable":
			st.Disabled = false
		case "shared":
			st.Shared = false
		}
	}
	maps.Copy(st.Config, c.section("storage", "content", "nodes", "disable", "shared", "password", "keyring", "encryption-key", "master-pubkey"))
	if c.p.has("content") {
		st.Content = contentOf(c.param("content"))
	}
	if c.p.has("disable") {
		st.Disabled = c.p.bool("disable")
	}
	if c.p.has("shared") {
		st.Shared = c.p.bool("shared")
	}
}

func (c *call) deleteStorage() (any, error) {
	name := c.param("storage")
	if all, _ := c.s.storagesByName(); all[name] == nil {
		return nil, userConfig("delete storage failed", die("storage '%s' does not exist", name))
	}
	for _, h := range c.s.hosts {
		delete(h.storages, name)
	}
	c.s.forgetACLs("/storage/" + name)
	return nil, nil
}

func (c *call) storageHistory() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	return c.history(map[string]any{"total": int64(st.Size), "used": st.usedBytes()}), nil
}
