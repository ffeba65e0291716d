package world

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// Storage is a storage with what is on it.
type Storage struct {
	model.Storage
	Host    string   // the owner; empty for a shared one
	Nodes   []string // that its section names; nil is all
	Volumes map[string]*Volume
}

// Dir is where a directory storage keeps its files, as logs and errors say.
func (st *Storage) Dir() string {
	switch {
	case st.Config["path"] != "":
		return st.Config["path"]
	case st.Name == "local":
		return "/var/lib/vz"
	case slices.Contains([]string{"nfs", "cifs", "cephfs", "glusterfs"}, st.Type):
		return "/mnt/pve/" + st.Name
	}
	return "/var/lib/" + st.Name
}

// Path is where a volume is.
func (st *Storage) Path(name string) string {
	kind, rest, _ := strings.Cut(name, "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.Count(name, "/") > 1 { // a linked clone
		owner := strings.Split(name, "/")
		return st.Dir() + "/images/" + owner[len(owner)-2] + name[i:]
	}
	switch kind {
	case "iso", "vztmpl":
		return st.Dir() + "/template/" + map[string]string{"iso": "iso", "vztmpl": "cache"}[kind] + "/" + rest
	case "backup":
		return st.Dir() + "/dump/" + rest
	case "import", "snippets":
		return st.Dir() + "/" + kind + "/" + rest
	}
	if st.FileBased() {
		return st.Dir() + "/images/" + name
	}
	if st.Type == "zfspool" {
		return "/dev/zvol/" + st.Name + "/" + name
	}
	return "/dev/" + st.Name + "/" + name
}

// UsedBytes is how much of a storage is taken.
func (st *Storage) UsedBytes() int64 {
	n := int64(st.Used)
	for _, v := range st.Volumes {
		n += st.Takes(v)
	}
	return n
}

// FormatOf is the format of an image by its name.
func FormatOf(st *Storage, name string) string {
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext != "" && (st.FileBased() || st.Type == "lvm") {
		return ext
	}
	return "raw"
}

// NewName returns the next free name for a VM's disk.
func (st *Storage) NewName(vmid int, stem, format string) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("-%d-disk-%d", vmid, i)
		if !st.taken(vmid, "vm"+name) && !st.taken(vmid, "base"+name) {
			return st.Full(vmid, stem+name, format)
		}
	}
}

// Full is a volume's name with what a storage puts around it.
func (st *Storage) Full(vmid int, name, format string) string {
	switch {
	case st.FileBased():
		return fmt.Sprintf("%d/%s.%s", vmid, name, format)
	case st.Type == "lvm" && format == "qcow2":
		return name + ".qcow2"
	}
	return name
}

func (st *Storage) taken(vmid int, name string) bool {
	for _, v := range st.Volumes {
		if v.Owner != vmid {
			continue
		}
		last := path.Base(v.Name)
		if stem := strings.TrimSuffix(last, path.Ext(last)); stem == name || last == name {
			return true
		}
	}
	return false
}

// VolumesOf are the volumes that belong to a VM, whether its configuration knows them or not.
func (h *Host) VolumesOf(vmid int) (volids []string) {
	for _, name := range slices.Sorted(maps.Keys(h.Stores)) {
		st := h.Stores[name]
		for _, n := range slices.Sorted(maps.Keys(st.Volumes)) {
			if st.Volumes[n].Owner == vmid {
				volids = append(volids, st.Name+":"+n)
			}
		}
	}
	return volids
}

// Remove deletes a volume.
func (st *Storage) Remove(name string) error {
	v := st.Volumes[name]
	if v == nil {
		return nil
	}
	if v.Clones > 0 {
		for n, o := range st.Volumes {
			if o.Base == v {
				return answer.Die("base volume '%s' is still in use by '%s'", path.Base(name), path.Base(n))
			}
		}
	}
	if v.Base != nil {
		v.Base.Clones--
	}
	delete(st.Volumes, name)
	return nil
}

// Erase removes a volume and, with an OS disk, its server from the memory of the
// guests' network: nobody will boot it again.
func (w Worker) Erase(st *Storage, name string) error {
	v := st.Volumes[name]
	if err := st.Remove(name); err != nil || v == nil || v.Disk == nil {
		return err
	}
	w.State.WithoutLock(v.Disk.Forget)
	return nil
}

// Contents are the kinds of content as the configuration has them.
func (st *Storage) Contents() string {
	if len(st.Content) == 0 {
		return "none"
	}
	return strings.Join(st.Content, ",")
}

// State is a storage as GET status shows it.
func (st *Storage) State() map[string]any {
	if st.Ready() != nil { // PVE/Storage.pm, storage_info: figures stay 0
		return map[string]any{
			"type": st.Type, "content": st.Contents(), "shared": answer.Flag(st.Shared), "enabled": answer.Flag(!st.Disabled), "active": 0,
			"total": 0, "used": 0, "avail": 0,
		}
	}
	used := st.UsedBytes()
	return map[string]any{
		"type": st.Type, "content": st.Contents(), "shared": answer.Flag(st.Shared), "enabled": 1, "active": 1,
		"total": int64(st.Size), "used": used, "avail": max(0, int64(st.Size)-used),
	}
}

// Ready refuses a storage that is switched off or away.
func (st *Storage) Ready() error {
	switch {
	case st.Disabled:
		return answer.Die("storage '%s' is disabled", st.Name)
	case st.Inactive:
		return answer.Die("storage '%s' is not online", st.Name)
	case st.FileBased() && len(st.Content) == 0: // whose directory would that be? (PVE/Storage/Plugin.pm, activate_storage)
		return answer.Die("unknown vtype 'none'")
	}
	return nil
}

// CreateRoute is the method that makes a machine.
const CreateRoute = "POST /nodes/{node}/qemu"

// StoreReady refuses a storage that a host does not have, or that is switched off.
func (h *Host) StoreReady(name string) error {
	if h.Stores[name] == nil {
		return answer.Die("storage '%s' is not available on node '%s'", name, h.Name)
	}
	return h.Stores[name].Ready()
}

// PutFile puts a file of a kind of content there.
func (st *Storage) PutFile(content, name string, data []byte) {
	full := content + "/" + name
	format := strings.TrimPrefix(path.Ext(name), ".")
	if content == "iso" {
		format = "iso"
	}
	st.Volumes[full] = &Volume{Name: full, Content: content, Format: format,
		Size: int64(len(data)), Data: data, Made: time.Now()}
}

// StoragesByName are the cluster's, each as one of the nodes that have it sees it.
func (s *State) StoragesByName() (all map[string]*Storage, nodes map[string][]string) {
	all, nodes = map[string]*Storage{}, map[string][]string{}
	for _, node := range s.Nodes() {
		for name, st := range s.Hosts[node].Stores {
			if all[name] == nil {
				all[name] = st
			}
			nodes[name] = append(nodes[name], node)
		}
	}
	for name, st := range s.Elsewhere {
		all[name], nodes[name] = st, st.Nodes
	}
	return all, nodes
}
