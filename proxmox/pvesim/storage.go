package pvesim

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// storage is a storage with what is on it.
type storage struct {
	Storage
	host    string // whose it is; empty for a shared one
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
	case "import", "backup", "snippets":
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
		name := fmt.Sprintf("%s-%d-disk-%d", stem, vmid, i)
		if !st.taken(vmid, name) {
			return st.full(vmid, name, format)
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
	if st == nil {
		return nil, die("storage '%s' does not exist", c.param("storage"))
	}
	return st, nil
}

func (st *storage) state() map[string]any {
	if st.Inactive || st.Disabled { // PVE/Storage.pm, storage_info: figures stay 0
		return map[string]any{
			"type": st.Type, "content": strings.Join(st.Content, ","), "shared": boolInt(st.Shared), "enabled": boolInt(!st.Disabled), "active": 0,
			"total": 0, "used": 0, "avail": 0,
		}
	}
	used := st.usedBytes()
	return map[string]any{
		"type": st.Type, "content": strings.Join(st.Content, ","), "shared": boolInt(st.Shared), "enabled": 1, "active": 1,
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
	}
	return nil
}

// sameOn reports whether the node that a call names as target has a storage too.
func (c *call) sameOn(st *storage) bool {
	target := c.s.hosts[c.param("target")]
	return target == nil || target.storages[st.Name] != nil && !target.storages[st.Name].Disabled
}

// formats are those that disks may have on a storage, and that which they have
// unless told otherwise.
func (st *storage) formats() map[string]any {
	if st.fileBased() {
		return map[string]any{"supported": []string{"qcow2", "raw", "subvol", "vmdk"}, "default": "qcow2"}
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
	for _, name := range slices.Sorted(maps.Keys(c.host().storages)) {
		st := c.host().storages[name]
		if !c.s.canAny(c.who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") {
			continue
		}
		if want := c.param("content"); want != "" && !slices.ContainsFunc(splitList(want), func(t string) bool { return slices.Contains(st.Content, t) }) {
			continue
		}
		if want := c.param("storage"); want != "" && want != name {
			continue
		}
		if c.p.bool("enabled") && st.Disabled || !c.sameOn(st) {
			continue
		}
		entry := st.state()
		entry["storage"] = name
		if c.p.bool("format") {
			entry["formats"] = st.formats()
		}
		if entry["active"] == 1 {
			entry["used_fraction"] = float64(st.usedBytes()) / float64(max(1, st.Size))
		}
		out = append(out, entry)
	}
	return out, nil
}

func (c *call) storageStatus() (any, error) {
	st, err := c.storage()
	if err != nil {
		return nil, err
	}
	return st.state(), nil
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
	for _, name := range slices.Sorted(maps.Keys(st.volumes)) {
		v := st.volumes[name]
		if want := c.param("content"); want != "" && want != v.content {
			continue
		}
		if want := c.param("vmid"); want != "" && want != itoa(v.owner) {
			continue
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
	if v.owner != 0 {
		e["vmid"] = v.owner
		e["used"] = v.used()
	}
	if v.base != nil {
		e["parent"] = path.Base(v.base.name)
	}
	return e
}

// volumeOf finds the volume of a path; it may be named with or without its storage.
func (c *call) volumeOf() (*storage, string, error) {
	st, err := c.storage()
	if err != nil {
		return nil, "", err
	}
	name := c.param("volume")
	if storeName, rest, full := strings.Cut(name, ":"); full {
		if storeName != st.Name {
			return nil, "", badParam("storage", "storage ID missmatch ("+st.Name+" != "+storeName+")")
		}
		name = rest
	}
	return st, name, nil
}

func (c *call) volumeInfo() (any, error) {
	st, name, err := c.volumeOf()
	if err != nil {
		return nil, err
	}
	if err := c.s.need(c.who, "/storage/"+st.Name, "Datastore.AllocateSpace", "Datastore.Audit"); err != nil {
		return nil, err
	}
	v := st.volumes[name]
	if v == nil {
		return nil, die("volume_size_info on '%s:%s' failed - no such volume", st.Name, name)
	}
	return map[string]any{"path": st.path(name), "size": v.size, "used": v.used(), "format": v.format}, nil
}

var backupName = regexp.MustCompile(`^backup/vzdump-(?:qemu|lxc)-(\d+)-`)

// ownBackup reports whether a volume is a backup of a VM that the asker may back up.
func (c *call) ownBackup(st *storage, name string) bool {
	m := backupName.FindStringSubmatch(name)
	return m != nil && c.s.can(c.who, "/storage/"+st.Name, "Datastore.AllocateSpace") && c.s.can(c.who, "/vms/"+m[1], "VM.Backup")
}

func (c *call) deleteVolume() (any, error) {
	st, name, err := c.volumeOf()
	if err != nil {
		return nil, err
	}
	if !c.s.can(c.who, "/storage/"+st.Name, "Datastore.Allocate") && !c.ownBackup(st, name) {
		return nil, refuse("/storage/"+st.Name, "Datastore.Allocate")
	}
	upid, err := c.startTask("imgdel", st.Name, func(w worker) error {
		unlock, err := w.lockStorage(st)
		if err != nil {
			return err
		}
		defer unlock()
		if st.volumes[name] == nil {
			w.log("disk image '%s' does not exist", st.path(name))
		}
		if v := st.volumes[name]; v != nil && v.onNode {
			_ = w.s.hosts[c.param("node")].shell.Disk().Remove(st.path(name)) // gone is gone
		}
		if err := w.erase(st, name); err != nil {
			return err
		}
		w.log("Removed volume '%s:%s'", st.Name, name)
		return nil
	})
	if err != nil || c.p.int("delay", 0) == 0 {
		return upid, err
	}
	return c.finished(upid, c.p.int("delay", 0))
}

// needContent refuses a storage that does not take a kind of content.
func (st *storage) needContent(kind string) error {
	if slices.Contains(st.Content, kind) {
		return nil
	}
	return badParam("storage", fmt.Sprintf("storage '%s' does not support '%s' content", st.Name, kind))
}

// permitVolume checks access to a volume that is to be read or attached.
func (c *call) permitVolume(volid string) error {
	name, rest, _ := strings.Cut(volid, ":")
	st := c.host().storages[name]
	if st == nil {
		return die("storage '%s' does not exist", name)
	}
	v := st.volumes[rest]
	if v == nil {
		v = &volume{content: "iso"} // what is not there is known by its name alone
	}
	return c.s.mayVolume(c.who, st, v, c.vmid())
}

// mayVolume checks the right to read a volume; vmid is the machine that wants it
// (PVE/Storage.pm, check_volume_access).
func (s *Sim) mayVolume(who identity, st *storage, v *volume, vmid int) error {
	where := "/storage/" + st.Name
	switch {
	case s.can(who, where, "Datastore.Allocate"), v.owner != 0 && v.owner == vmid:
		return nil
	case v.owner == 0:
		return s.need(who, where, "Datastore.AllocateSpace", "Datastore.Audit")
	}
	if err := s.need(who, where, "Datastore.Audit"); err != nil {
		return err
	}
	return s.need(who, "/vms/"+itoa(v.owner), "VM.Config.Disk")
}
