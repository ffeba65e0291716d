package pvesim

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

func (c *call) listStorages() (any, error) {
	out := []any{}
	all, _ := c.s.storagesByName()
	if name := c.param("storage"); name != "" {
		st := c.host().storages[name]
		if st == nil || c.p.has("content") && !slices.ContainsFunc(splitList(c.param("content")), func(t string) bool { return slices.Contains(st.Content, t) }) {
			return nil, badParam("storage", "No such storage.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
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
		if want := c.param("vmid"); want != "" && want != strconv.Itoa(v.owner) && slices.Contains([]string{"images", "rootdir", "backup"}, v.content) {
			continue // what has no owner is in every machine's list
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

// formats are those that disks may have on a storage, and that which they have
// unless told otherwise.
func (st *storage) formats() map[string]any {
	if st.fileBased() {
		return map[string]any{"supported": []string{"qcow2", "raw", "subvol", "vmdk"}, "default": cmp.Or(st.Config["format"], "raw")}
	}
	return map[string]any{"supported": []string{"raw", "subvol"}, "default": "raw"}
}

// sameOn reports whether the node that a call names as target has a storage too.
func (c *call) sameOn(st *storage) bool {
	if !c.p.has("target") {
		return true
	}
	target := c.s.hosts[c.param("target")]
	return target != nil && target.storages[st.Name] != nil && !target.storages[st.Name].Disabled
}

// rootFolders are those that every host has.
func rootFolders() []string {
	return strings.Fields("/bin /boot /dev /etc /home /lib /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var /var/lib")
}
