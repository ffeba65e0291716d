package pvesim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// storage is a storage with what is on it.
type storage struct {
	Storage
	host    string   // the owner; empty for a shared one
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

// storeReady refuses a storage that a host does not have, or that is switched off.
func (h *host) storeReady(name string) error {
	if h.storages[name] == nil {
		return die("storage '%s' is not available on node '%s'", name, h.Name)
	}
	return h.storages[name].ready()
}

func (st *storage) putFile(content, name string, data []byte) {
	full := content + "/" + name
	format := strings.TrimPrefix(path.Ext(name), ".")
	if content == "iso" {
		format = "iso"
	}
	st.volumes[full] = &volume{name: full, content: content, format: format,
		size: int64(len(data)), data: data, made: time.Now()}
}

// storagesByName are the cluster's, each as one of the nodes that have it sees it.
func (s *state) storagesByName() (all map[string]*storage, nodes map[string][]string) {
	all, nodes = map[string]*storage{}, map[string][]string{}
	for _, node := range s.nodes() {
		for name, st := range s.hosts[node].storages {
			if all[name] == nil {
				all[name] = st
			}
			nodes[name] = append(nodes[name], node)
		}
	}
	for name, st := range s.elsewhere {
		all[name], nodes[name] = st, st.nodes
	}
	return all, nodes
}
