package pvesim

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// storageHandlers answer for storages, their volumes, and backups and appliances among these.
func storageHandlers() map[string]handler {
	const store = "/nodes/{node}/storage/{storage}"
	all := map[string]handler{
		"GET /storage":                          (*call).storageConfigs,
		"POST /storage":                         (*call).createStorage,
		"GET /storage/{storage}":                (*call).storageConfig,
		"PUT /storage/{storage}":                (*call).updateStorage,
		"DELETE /storage/{storage}":             (*call).deleteStorage,
		"GET " + store + "/rrddata":             (*call).storageHistory,
		"POST " + store + "/content":            (*call).allocateVolume,
		"PUT " + store + "/content/{volume}":    (*call).describeVolume,
		"POST " + store + "/content/{volume}":   (*call).copyVolumeTo,
		"GET /nodes/{node}/storage":             (*call).listStorages,
		"GET " + store + "/status":              (*call).storageStatus,
		"GET " + store + "/content":             (*call).storageContent,
		"POST " + store + "/upload":             (*call).uploadFile,
		"POST " + store + "/download-url":       (*call).downloadURL,
		"GET " + store + "/content/{volume}":    (*call).volumeInfo,
		"DELETE " + store + "/content/{volume}": (*call).deleteVolume,
		"GET /nodes/{node}/aplinfo":             (*call).listAppliances,
		"POST /nodes/{node}/aplinfo":            (*call).downloadAppliance,
		"GET /nodes/{node}/query-url-metadata":  (*call).askURL,
		"GET " + store + "/prunebackups":        (*call).prunable,
		"DELETE " + store + "/prunebackups":     (*call).pruneBackups,
		"GET " + store + "/file-restore/list":   (*call).inBackup,
		"GET " + store + "/import-metadata":     (*call).importMetadata,
	}
	maps.Copy(all, backupHandlers())
	return all
}

// sharedTypes are kinds of storage that every node sees the same of.
func sharedTypes() []string {
	return []string{"nfs", "cifs", "cephfs", "rbd", "iscsi", "iscsidirect", "pbs", "zfs"}
}

// storageSections is storage.cfg, with digests or without.
func (s *state) storageSections(digests bool) map[string]map[string]any {
	all, nodes := s.storagesByName()
	out := map[string]map[string]any{}
	for name, st := range all {
		e := map[string]any{"storage": name, "type": st.Type, "content": st.contents()}
		if st.fileBased() {
			e["path"] = st.dir()
		}
		for k, v := range st.Config {
			e[k] = s.typedAs("POST /storage", k, v)
			if k == "content-dirs" {
				e[k] = dirsOf(v)
			}
		}
		if st.Shared {
			e["shared"] = 1
		}
		if st.Disabled {
			e["disable"] = 1
		}
		if st.nodes != nil || len(nodes[name]) < len(s.hosts) {
			e["nodes"] = strings.Join(nodes[name], ",")
		}
		out[name] = e
	}
	if digest := digestOf(out); digests {
		for _, e := range out {
			e["digest"] = digest
		}
	}
	return out
}

// dirsOf takes a list of content types' folders apart.
func dirsOf(list string) map[string]any {
	out := map[string]any{}
	for _, one := range splitList(list) {
		content, dir, _ := strings.Cut(one, "=")
		out[content] = dir
	}
	return out
}

func (c *call) storageConfigs() (any, error) {
	out := []any{}
	sections := c.s.storageSections(true)
	for _, name := range slices.Sorted(maps.Keys(sections)) {
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
	e := c.s.storageSections(true)[c.param("storage")]
	if e == nil {
		return nil, die("storage '%s' does not exist", c.param("storage"))
	}
	return e, nil
}

// usualContent is what a kind of storage takes unless told otherwise.
func usualContent(kind string) []string { return strings.Fields(sectionTypeOf("storage", kind).Usual) }

// storageSection is what a call says of a storage in storage.cfg: what is secret is
// kept elsewhere.
func (c *call) storageSection(kind string) map[string]string {
	out := c.section("storage", "type")
	maps.DeleteFunc(out, func(k, _ string) bool { return sectionTypeOf("storage", kind).secret(k) })
	if kind == "pbs" && c.p.has("master-pubkey") { // that there is one may be shown (PVE/Storage/PBSPlugin.pm, on_update_hook)
		out["master-pubkey"] = "1"
	}
	return out
}

func (c *call) createStorage() (any, error) {
	name, kind := c.param("storage"), c.param("type")
	section := c.storageSection(kind)
	if section["nodes"] == "" {
		delete(section, "nodes")
	}
	if section["path"] == "" && slices.Contains([]string{"nfs", "cifs", "cephfs"}, kind) {
		section["path"] = "/mnt/pve/" + name
	}
	if err := sectionTypeOf("storage", kind).check(section, true); err != nil {
		return nil, err
	}
	one := Storage{Name: name, Type: kind, Content: usualContent(kind), Size: TiB, Shared: slices.Contains(sharedTypes(), kind)}
	if p := section["path"]; kind == "dir" || kind == "btrfs" {
		if !storagePath.MatchString(p) {
			return nil, die("illegal path for directory storage: %s", p)
		}
		section["path"] = canonical(p)
	}
	if err := one.set(section); err != nil {
		return nil, err
	}
	if all, _ := c.s.storagesByName(); all[name] != nil {
		return nil, userConfig("create storage failed", die("storage ID '%s' already defined", name))
	}
	if err := activatable(name, section); err != nil && kind == "dir" && !one.Disabled {
		return nil, userConfig("create storage failed", err)
	}
	c.spread(one, section["nodes"], nil)
	out := map[string]any{"storage": name, "type": kind}
	if kind == "pbs" { // what was made up of keys: nothing
		out["config"] = map[string]any{}
	}
	return out, nil
}

// canonical is a path without what says nothing (File::Spec, canonpath).
func canonical(p string) string {
	for _, nothing := range []string{"//", "/./"} {
		for strings.Contains(p, nothing) {
			p = strings.ReplaceAll(p, nothing, "/")
		}
	}
	return cmp.Or(strings.TrimSuffix(strings.TrimSuffix(p, "/."), "/"), "/")
}

// activatable refuses a folder that is not there and not to be made, or is not a mount point (PVE/Storage/DirPlugin.pm, activate_storage).
func activatable(name string, section map[string]string) error {
	dir, mount := section["path"], section["is_mountpoint"]
	if there := slices.Contains(rootFolders(), dir); slices.Contains([]string{"1", "yes", "on", "true"}, mount) {
		return die("unable to activate storage '%s' - directory is expected to be a mount point but is not mounted: '%s'", name, dir)
	} else if !there && (section["mkdir"] == "0" || section["create-base-path"] == "0") {
		return die("unable to activate storage '%s' - directory '%s' does not exist or is unreachable", name, dir)
	}
	return nil
}

var storagePath = regexp.MustCompile(`^/[-/a-zA-Z0-9_.@]+$`)

// set writes properties of a section into a storage (PVE/Storage/Plugin.pm,
// decode_value); kinds of content that it cannot hold are dropped.
func (st *Storage) set(section map[string]string) error {
	st.Config = maps.Clone(st.Config)
	if st.Config == nil {
		st.Config = map[string]string{}
	}
	for k, v := range section {
		switch k {
		case "content":
			content, err := contentOf(st.Type, v)
			if err != nil {
				return err
			}
			st.Content = content
		case "disable":
			st.Disabled = v == "1"
		case "shared":
			st.Shared = v == "1"
		case "nodes":
		default:
			st.Config[k] = v
		}
	}
	withoutEmpty(st.Config)
	return nil
}

// contentOf reads a list of content types; "none" is none.
func contentOf(kind, list string) ([]string, error) {
	can := strings.Fields(sectionTypeOf("storage", kind).Content)
	types := slices.DeleteFunc(splitList(list), func(t string) bool { return !slices.Contains(can, t) })
	slices.Sort(types)
	types = slices.Compact(types)
	switch {
	case slices.Contains(types, "none") && len(types) > 1:
		return nil, die("unable to combine 'none' with other content types")
	case len(types) == 0 && !slices.Contains(can, "none"):
		return nil, die("storage does not support content type 'none'")
	}
	return slices.DeleteFunc(types, func(t string) bool { return t == "none" }), nil
}

// spread puts a storage onto the nodes of a list, or all, where it is not yet; was
// holds what the nodes had of it. One on nodes that there are not is nowhere.
func (c *call) spread(one Storage, list string, was map[string]*storage) {
	asked := splitList(list)
	nodes := asked
	if len(nodes) == 0 {
		asked, nodes = nil, c.s.nodes()
	}
	var here *storage
	for _, n := range c.s.nodes() {
		h := c.s.hosts[n]
		switch {
		case !slices.Contains(nodes, n):
			delete(h.storages, one.Name)
			continue
		case was[n] != nil:
			h.storages[one.Name] = was[n]
		case one.Shared && here != nil:
			h.storages[one.Name] = here
		default:
			h.storages[one.Name] = &storage{Storage: one, host: n, volumes: map[string]*volume{}}
		}
		if one.Shared {
			h.storages[one.Name].host = ""
		}
		here = h.storages[one.Name]
		here.nodes = asked
	}
	delete(c.s.elsewhere, one.Name)
	if here == nil {
		if c.s.elsewhere == nil {
			c.s.elsewhere = map[string]*storage{}
		}
		c.s.elsewhere[one.Name] = &storage{Storage: one, volumes: map[string]*volume{}, nodes: nodes}
	}
}

func (c *call) updateStorage() (any, error) {
	name := c.param("storage")
	const failed = "update storage failed"
	all, nodes := c.s.storagesByName()
	if err := c.checkDigest(digestOf(c.s.storageSections(false))); err != nil {
		return nil, userConfig(failed, err)
	}
	st := all[name]
	if st == nil {
		return nil, userConfig(failed, die("storage '%s' does not exist", name))
	}
	section, remove := c.storageSection(st.Type), splitList(c.param("delete"))
	about := sectionTypeOf("storage", st.Type)
	err := about.check(section, false)
	if err == nil {
		_, err = contentOf(st.Type, cmp.Or(section["content"], strings.Join(usualContent(st.Type), ",")))
	}
	if err == nil {
		err = about.checkDelete(remove, section)
	}
	if err != nil {
		return nil, userConfig(failed, err)
	}
	was := map[string]*storage{}
	for n, h := range c.s.hosts {
		if here := h.storages[name]; here != nil {
			here.change(section, remove)
			was[n] = here
		}
	}
	if was[c.s.nodes()[0]] == nil && len(was) == 0 {
		st.change(section, remove)
	}
	list := strings.Join(st.nodes, ",")
	if list == "" && len(nodes[name]) < len(c.s.hosts) {
		list = strings.Join(nodes[name], ",")
	}
	if c.p.has("nodes") || slices.Contains(remove, "nodes") {
		list = section["nodes"]
	}
	c.spread(st.Storage, list, was)
	return map[string]any{"storage": name, "type": st.Type}, nil
}

func (st *storage) change(section map[string]string, remove []string) {
	_ = st.set(section) // what is wrong was refused before
	for _, k := range remove {
		switch delete(st.Config, k); k {
		case "content":
			st.Content = usualContent(st.Type)
		case "disable":
			st.Disabled = false
		case "shared":
			st.Shared = slices.Contains(sharedTypes(), st.Type)
		}
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
	delete(c.s.elsewhere, name)
	c.s.forgetACLs("/storage/" + name)
	return nil, nil
}

func (c *call) storageHistory() (any, error) {
	st, err := c.storage()
	if c.host().storages[c.param("storage")] == nil { // nobody asks whether there is one
		return nil, die("RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening "+
			"'/var/lib/rrdcached/db/pve-storage-9.0/%s/%s': No such file or directory", c.param("node"), c.param("storage"))
	}
	if err != nil {
		return nil, err
	}
	return c.history(map[string]any{"total": int64(st.Size), "used": st.usedBytes()}), nil
}
