package pvesim

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// storage is a storage with what is on it.
type storage struct {
	Storage
	host    string   // whose it is; empty for a shared one
	nodes   []string // that its section names; nil is all
	volumes map[string]*volume
}

func (st *storage) fileBased() bool { return st.Type == "dir" || st.Type == "nfs" }

// dir is where a directory storage keeps its files, as logs and errors say.
func (st *storage) dir() string {
	switch {
	case st.Name == "local":
		return "/var/lib/vz"
	case st.Type == "nfs":
		return "/mnt/pve/" + st.Name
	}
	return "/var/lib/" + st.Name
}

// path is where a volume is.
func (st *storage) path(name string) string {
	kind, rest, _ := strings.Cut(name, "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") > 1 { // a linked clone
		owner := strings.Split(name, "/")
		return st.dir() + "/images/" + owner[len(owner)-2] + name[i:]
	}
	switch kind {
	case "iso", "vztmpl":
		return st.dir() + "/template/" + map[string]string{"iso": "iso", "vztmpl": "cache"}[kind] + "/" + rest
	case "backup":
		return st.dir() + "/dump/" + rest
	case "import", "snippets":
		return st.dir() + "/" + kind + "/" + rest
	}
	if st.fileBased() {
		return st.dir() + "/images/" + name
	}
	if st.Type == "zfspool" {
		return "/dev/zvol/" + st.Name + "/" + name
	}
	return "/dev/" + st.Name + "/" + name
}

func (st *storage) usedBytes() int64 {
	n := int64(st.Used)
	for _, v := range st.volumes {
		n += v.used()
	}
	return n
}

// volume finds what a volume ID names; the storage is nil where it is not one.
func (h *host) volume(volid string) (*storage, string) {
	name, rest, ok := strings.Cut(volid, ":")
	if !ok {
		return nil, ""
	}
	return h.storages[name], rest
}

// lookup returns a volume that must be there.
func (h *host) lookup(volid string) (*storage, *volume, error) {
	name, _, _ := strings.Cut(volid, ":")
	st, rest := h.volume(volid)
	if st == nil {
		return nil, nil, die("storage '%s' does not exist", name)
	}
	v := st.volumes[rest]
	if v == nil {
		return st, nil, die("volume '%s' does not exist", volid)
	}
	return st, v, nil
}

func formatOf(st *storage, name string) string {
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext != "" && st.fileBased() {
		return ext
	}
	return "raw"
}

// newName returns the next free name for a VM's disk.
func (st *storage) newName(vmid int, stem, format string) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("-%d-disk-%d", vmid, i)
		if !st.taken(vmid, "vm"+name) && !st.taken(vmid, "base"+name) {
			return st.full(vmid, stem+name, format)
		}
	}
}

func (st *storage) full(vmid int, name, format string) string {
	if st.fileBased() {
		return fmt.Sprintf("%d/%s.%s", vmid, name, format)
	}
	return name
}

func (st *storage) taken(vmid int, name string) bool {
	for _, v := range st.volumes {
		if v.owner != vmid {
			continue
		}
		last := path.Base(v.name)
		if stem := strings.TrimSuffix(last, path.Ext(last)); stem == name || last == name {
			return true
		}
	}
	return false
}

// owned are the volumes that belong to a VM, whether its configuration knows them or not.
func (h *host) owned(vmid int) (volids []string) {
	for _, name := range slices.Sorted(maps.Keys(h.storages)) {
		st := h.storages[name]
		for _, n := range slices.Sorted(maps.Keys(st.volumes)) {
			if st.volumes[n].owner == vmid {
				volids = append(volids, st.Name+":"+n)
			}
		}
	}
	return volids
}

// remove deletes a volume.
func (st *storage) remove(name string) error {
	v := st.volumes[name]
	if v == nil {
		return nil
	}
	if v.clones > 0 {
		for n, o := range st.volumes {
			if o.base == v {
				return die("base volume '%s' is still in use by '%s'", path.Base(name), path.Base(n))
			}
		}
	}
	if v.base != nil {
		v.base.clones--
	}
	delete(st.volumes, name)
	return nil
}

// erase removes a volume and, with an OS disk, its server from the memory of the
// guests' network: nobody will boot it again.
func (w worker) erase(st *storage, name string) error {
	v := st.volumes[name]
	if err := st.remove(name); err != nil || v == nil || v.disk == nil {
		return err
	}
	w.s.outside(v.disk.Forget)
	return nil
}

func (c *call) storage() (*storage, error) {
	st := c.host().storages[c.param("storage")]
	if st != nil {
		return st, nil
	}
	if all, _ := c.s.storagesByName(); all[c.param("storage")] != nil {
		return nil, die("storage '%s' is not available on node '%s'", c.param("storage"), c.param("node"))
	}
	return nil, die("storage '%s' does not exist", c.param("storage"))
}

// contents are the kinds of content as the configuration has them.
func (st *storage) contents() string {
	if len(st.Content) == 0 {
		return "none"
	}
	return strings.Join(st.Content, ",")
}

func (st *storage) state() map[string]any {
	if st.ready() != nil { // PVE/Storage.pm, storage_info: figures stay 0
		return map[string]any{
			"type": st.Type, "content": st.contents(), "shared": boolInt(st.Shared), "enabled": boolInt(!st.Disabled), "active": 0,
			"total": 0, "used": 0, "avail": 0,
		}
	}
	used := st.usedBytes()
	return map[string]any{
		"type": st.Type, "content": st.contents(), "shared": boolInt(st.Shared), "enabled": 1, "active": 1,
		"total": int64(st.Size), "used": used, "avail": max(0, int64(st.Size)-used),
	}
}

// ready refuses a storage that is switched off or away.
func (st *storage) ready() error {
	switch {
	case st.Disabled:
		return die("storage '%s' is disabled", st.Name)
	case st.Inactive:
		return die("storage '%s' is not online", st.Name)
	case st.fileBased() && len(st.Content) == 0: // whose directory would that be? (PVE/Storage/Plugin.pm, activate_storage)
		return die("unknown vtype 'none'")
	}
	return nil
}

// createRoute is the method that makes a machine.
const createRoute = "POST /nodes/{node}/qemu"

// storeReady refuses a storage that a host has not, or that is switched off.
func (h *host) storeReady(name string) error {
	if h.storages[name] == nil {
		return die("storage '%s' is not available on node '%s'", name, h.Name)
	}
	return h.storages[name].ready()
}

// sameOn reports whether the node that a call names as target has a storage too.
func (c *call) sameOn(st *storage) bool {
	if !c.p.has("target") {
		return true
	}
	target := c.s.hosts[c.param("target")]
	return target != nil && target.storages[st.Name] != nil && !target.storages[st.Name].Disabled
}

// formats are those that disks may have on a storage, and that which they have
// unless told otherwise.
func (st *storage) formats() map[string]any {
	if st.fileBased() {
		return map[string]any{"supported": []string{"qcow2", "raw", "subvol", "vmdk"}, "default": cmp.Or(st.Config["format"], "raw")}
	}
	return map[string]any{"supported": []string{"raw", "subvol"}, "default": "raw"}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *call) listStorages() (any, error) {
	out := []any{}
	all, _ := c.s.storagesByName()
	if name := c.param("storage"); name != "" {
		st := c.host().storages[name]
		if st == nil || c.p.has("content") && !slices.ContainsFunc(splitList(c.param("content")), func(t string) bool { return slices.Contains(st.Content, t) }) {
			return nil, badParam("storage", "No such storage.")
		}
	}
	for _, name := range sortedKeys(all) {
		st := c.host().storages[name]
		away := st == nil
		if away { // it is another node's
			other := all[name]
			st = &storage{Storage: Storage{Name: name, Type: other.Type, Content: other.Content, Shared: other.Shared, Config: other.Config, Disabled: true}}
		}
		if !c.s.canAny(c.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") {
			continue
		}
		if want := c.param("content"); want != "" && !slices.ContainsFunc(splitList(want), func(t string) bool { return slices.Contains(st.Content, t) }) {
			continue
		}
		if want := c.param("storage"); want != "" && want != name {
			continue
		}
		if c.p.bool("enabled") && st.Disabled && !away || away && c.p.has("content") || !away && !c.sameOn(st) {
			continue
		}
		entry := st.state()
		entry["storage"] = name
		if c.p.bool("format") {
			formats := st.formats()
			can := map[string]any{}
			for _, f := range formats["supported"].([]string) {
				can[f] = 1
			}
			entry["formats"], entry["format"] = formats, []any{can, formats["default"]}
		}
		if entry["active"] == 1 {
			entry["used_fraction"] = float64(st.usedBytes()) / float64(max(1, st.Size))
		}
		out = append(out, entry)
	}
	return out, nil
}

// storageStatus knows storages of other nodes, which are not enabled here.
func (c *call) storageStatus() (any, error) {
	if st := c.host().storages[c.param("storage")]; st != nil {
		return st.state(), nil
	}
	all, _ := c.s.storagesByName()
	if st := all[c.param("storage")]; st != nil {
		return (&storage{Storage: Storage{Type: st.Type, Content: st.Content, Shared: st.Shared, Disabled: true}}).state(), nil
	}
	return nil, badParam("storage", "No such storage.")
}

func (c *call) storageContent() (any, error) {
	st, err := c.storage()
	if err == nil {
		err = st.ready()
	}
	if err != nil {
		return nil, err
	}
	out := []any{}
	names := slices.SortedFunc(maps.Keys(st.volumes), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		v := st.volumes[name]
		if want := c.param("content"); want != "" && want != v.content {
			continue
		}
		if want := c.param("vmid"); want != "" && want != itoa(v.owner) && slices.Contains([]string{"images", "rootdir", "backup"}, v.content) {
			continue // what is nobody's is in every machine's list
		}
		if c.s.mayVolume(c.who, st, v, 0) != nil {
			continue
		}
		out = append(out, st.entry(v))
	}
	return out, nil
}

func (st *storage) entry(v *volume) map[string]any {
	e := map[string]any{"volid": st.Name + ":" + v.name, "content": v.content, "format": v.format, "size": v.size, "ctime": v.made.Unix()}
	if about, err := st.parseVolume(v.name); err == nil && v.content == "vztmpl" {
		e["format"] = about.format
	}
	if v.owner != 0 {
		e["vmid"] = v.owner
		e["used"] = v.used()
	}
	if v.content == "images" && st.fileBased() {
		e["parent"] = nil
	}
	if v.base != nil {
		e["parent"] = path.Base(v.base.name)
		if st.fileBased() { // as the image itself has it
			e["parent"] = "../" + v.base.ownName()
		}
	}
	return e
}
