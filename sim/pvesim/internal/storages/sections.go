package storages

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Endpoints answer for storages, their volumes, and backups and appliances among these.
func Endpoints() map[string]world.Handler {
	const store = "/nodes/{node}/storage/{storage}"
	all := map[string]world.Handler{
		"GET /storage":                          storageConfigs,
		"POST /storage":                         createStorage,
		"GET /storage/{storage}":                storageConfig,
		"PUT /storage/{storage}":                updateStorage,
		"DELETE /storage/{storage}":             deleteStorage,
		"GET " + store + "/rrddata":             storageHistory,
		"POST " + store + "/content":            allocateVolume,
		"PUT " + store + "/content/{volume}":    describeVolume,
		"GET /nodes/{node}/storage":             listStorages,
		"GET " + store + "/status":              storageStatus,
		"GET " + store + "/content":             storageContent,
		"POST " + store + "/upload":             uploadFile,
		"POST " + store + "/download-url":       downloadURL,
		"GET " + store + "/content/{volume}":    volumeInfo,
		"DELETE " + store + "/content/{volume}": deleteVolume,
		"GET /nodes/{node}/aplinfo":             listAppliances,
		"POST /nodes/{node}/aplinfo":            downloadAppliance,
		"GET /nodes/{node}/query-url-metadata":  askURL,
		"GET " + store + "/prunebackups":        prunable,
		"DELETE " + store + "/prunebackups":     pruneBackups,
		"GET " + store + "/file-restore/list":   inBackup,
		"GET " + store + "/import-metadata":     importMetadata,
	}
	maps.Copy(all, backupHandlers())
	return all
}

// sharedTypes are kinds of storage that every node sees the same of.
func sharedTypes() []string {
	return []string{"nfs", "cifs", "cephfs", "rbd", "iscsi", "iscsidirect", "pbs", "zfs"}
}

// storageSections is storage.cfg, with digests or without.
func storageSections(s *world.State, digests bool) map[string]map[string]any {
	all, nodes := s.StoragesByName()
	out := map[string]map[string]any{}
	for name, st := range all {
		e := map[string]any{"storage": name, "type": st.Type, "content": st.Contents()}
		if st.FileBased() {
			e["path"] = st.Dir()
		}
		for k, v := range st.Config {
			e[k] = s.TypedAs("POST /storage", k, v)
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
		if st.Nodes != nil || len(nodes[name]) < len(s.Hosts) {
			e["nodes"] = strings.Join(nodes[name], ",")
		}
		out[name] = e
	}
	if digest := world.DigestOf(out); digests {
		for _, e := range out {
			e["digest"] = digest
		}
	}
	return out
}

// dirsOf takes a list of content types' folders apart.
func dirsOf(list string) map[string]any {
	out := map[string]any{}
	for _, one := range schema.SplitList(list) {
		content, dir, _ := strings.Cut(one, "=")
		out[content] = dir
	}
	return out
}

func storageConfigs(c *world.Call) (any, error) {
	out := []any{}
	sections := storageSections(c.State, true)
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if want := c.Param("type"); want != "" && want != sections[name]["type"] {
			continue
		}
		if access.CanAny(c.State, c.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") {
			out = append(out, sections[name])
		}
	}
	return out, nil
}

func storageConfig(c *world.Call) (any, error) {
	e := storageSections(c.State, true)[c.Param("storage")]
	if e == nil {
		return nil, answer.Die("storage '%s' does not exist", c.Param("storage"))
	}
	return e, nil
}

// usualContent is what a kind of storage takes unless told otherwise.
func usualContent(kind string) []string {
	return strings.Fields(schema.SectionOf("storage", kind).Usual)
}

// storageSection is what a call says of a storage in storage.cfg: what is secret is
// kept elsewhere.
func storageSection(c *world.Call, kind string) map[string]string {
	out := c.Section("storage", "type")
	maps.DeleteFunc(out, func(k, _ string) bool { return schema.SectionOf("storage", kind).IsSecret(k) })
	if kind == "pbs" && c.Params.Has("master-pubkey") { // that there is one may be shown (PVE/Storage/PBSPlugin.pm, on_update_hook)
		out["master-pubkey"] = "1"
	}
	return out
}

func createStorage(c *world.Call) (any, error) {
	name, kind := c.Param("storage"), c.Param("type")
	section := storageSection(c, kind)
	if section["nodes"] == "" {
		delete(section, "nodes")
	}
	if section["path"] == "" && slices.Contains([]string{"nfs", "cifs", "cephfs"}, kind) {
		section["path"] = "/mnt/pve/" + name
	}
	if err := schema.SectionOf("storage", kind).Check(section, true); err != nil {
		return nil, err
	}
	one := model.Storage{Name: name, Type: kind, Content: usualContent(kind), Size: model.TiB, Shared: slices.Contains(sharedTypes(), kind)}
	if p := section["path"]; kind == "dir" || kind == "btrfs" {
		if !storagePath.MatchString(p) {
			return nil, answer.Die("illegal path for directory storage: %s", p)
		}
		section["path"] = canonical(p)
	}
	if err := set(&one, section); err != nil {
		return nil, err
	}
	if all, _ := c.State.StoragesByName(); all[name] != nil {
		return nil, answer.UserConfig("create storage failed", answer.Die("storage ID '%s' already defined", name))
	}
	if err := activatable(name, section); err != nil && kind == "dir" && !one.Disabled {
		return nil, answer.UserConfig("create storage failed", err)
	}
	spread(c, one, section["nodes"], nil)
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
	if there := slices.Contains(RootFolders(), dir); slices.Contains([]string{"1", "yes", "on", "true"}, mount) {
		return answer.Die("unable to activate storage '%s' - directory is expected to be a mount point but is not mounted: '%s'", name, dir)
	} else if !there && (section["mkdir"] == "0" || section["create-base-path"] == "0") {
		return answer.Die("unable to activate storage '%s' - directory '%s' does not exist or is unreachable", name, dir)
	}
	return nil
}

var storagePath = regexp.MustCompile(`^/[-/a-zA-Z0-9_.@]+$`)

// set writes properties of a section into a storage (PVE/Storage/Plugin.pm,
// decode_value); kinds of content that it cannot hold are dropped.
func set(st *model.Storage, section map[string]string) error {
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
	world.WithoutEmpty(st.Config)
	return nil
}

// contentOf reads a list of content types; "none" is none.
func contentOf(kind, list string) ([]string, error) {
	can := strings.Fields(schema.SectionOf("storage", kind).Content)
	types := slices.DeleteFunc(schema.SplitList(list), func(t string) bool { return !slices.Contains(can, t) })
	slices.Sort(types)
	types = slices.Compact(types)
	switch {
	case slices.Contains(types, "none") && len(types) > 1:
		return nil, answer.Die("unable to combine 'none' with other content types")
	case len(types) == 0 && !slices.Contains(can, "none"):
		return nil, answer.Die("storage does not support content type 'none'")
	}
	return slices.DeleteFunc(types, func(t string) bool { return t == "none" }), nil
}

// spread puts a storage onto the nodes of a list, or all, where it is not yet; was
// holds what the nodes had of it. One on nodes that there are not is nowhere.
func spread(c *world.Call, one model.Storage, list string, was map[string]*world.Storage) {
	asked := schema.SplitList(list)
	nodes := asked
	if len(nodes) == 0 {
		asked, nodes = nil, c.State.Nodes()
	}
	var here *world.Storage
	for _, n := range c.State.Nodes() {
		h := c.State.Hosts[n]
		switch {
		case !slices.Contains(nodes, n):
			delete(h.Stores, one.Name)
			continue
		case was[n] != nil:
			h.Stores[one.Name] = was[n]
		case one.Shared && here != nil:
			h.Stores[one.Name] = here
		default:
			h.Stores[one.Name] = &world.Storage{Storage: one, Host: n, Volumes: map[string]*world.Volume{}}
		}
		if one.Shared {
			h.Stores[one.Name].Host = ""
		}
		here = h.Stores[one.Name]
		here.Nodes = asked
	}
	delete(c.State.Elsewhere, one.Name)
	if here == nil {
		if c.State.Elsewhere == nil {
			c.State.Elsewhere = map[string]*world.Storage{}
		}
		c.State.Elsewhere[one.Name] = &world.Storage{Storage: one, Volumes: map[string]*world.Volume{}, Nodes: nodes}
	}
}

func updateStorage(c *world.Call) (any, error) {
	name := c.Param("storage")
	const failed = "update storage failed"
	all, nodes := c.State.StoragesByName()
	if err := c.CheckDigest(world.DigestOf(storageSections(c.State, false))); err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	st := all[name]
	if st == nil {
		return nil, answer.UserConfig(failed, answer.Die("storage '%s' does not exist", name))
	}
	section, remove := storageSection(c, st.Type), schema.SplitList(c.Param("delete"))
	about := schema.SectionOf("storage", st.Type)
	err := about.Check(section, false)
	if err == nil {
		_, err = contentOf(st.Type, cmp.Or(section["content"], strings.Join(usualContent(st.Type), ",")))
	}
	if err == nil {
		err = about.CheckDelete(remove, section)
	}
	if err != nil {
		return nil, answer.UserConfig(failed, err)
	}
	was := map[string]*world.Storage{}
	for n, h := range c.State.Hosts {
		if here := h.Stores[name]; here != nil {
			change(here, section, remove)
			was[n] = here
		}
	}
	if was[c.State.Nodes()[0]] == nil && len(was) == 0 {
		change(st, section, remove)
	}
	list := strings.Join(st.Nodes, ",")
	if list == "" && len(nodes[name]) < len(c.State.Hosts) {
		list = strings.Join(nodes[name], ",")
	}
	if c.Params.Has("nodes") || slices.Contains(remove, "nodes") {
		list = section["nodes"]
	}
	spread(c, st.Storage, list, was)
	return map[string]any{"storage": name, "type": st.Type}, nil
}

func change(st *world.Storage, section map[string]string, remove []string) {
	_ = set(&st.Storage, section) // what is wrong was refused before
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

func deleteStorage(c *world.Call) (any, error) {
	name := c.Param("storage")
	if all, _ := c.State.StoragesByName(); all[name] == nil {
		return nil, answer.UserConfig("delete storage failed", answer.Die("storage '%s' does not exist", name))
	}
	for _, h := range c.State.Hosts {
		delete(h.Stores, name)
	}
	delete(c.State.Elsewhere, name)
	access.ForgetACLs(c.State, "/storage/"+name)
	return nil, nil
}

func storageHistory(c *world.Call) (any, error) {
	st, err := c.Storage()
	if c.Host().Stores[c.Param("storage")] == nil { // nobody asks whether there is one
		return nil, answer.Die("RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening "+
			"'/var/lib/rrdcached/db/pve-storage-9.0/%s/%s': No such file or directory", c.Param("node"), c.Param("storage"))
	}
	if err != nil {
		return nil, err
	}
	return nodes.History(c, map[string]any{"total": int64(st.Size), "used": st.UsedBytes()}), nil
}
