package storages

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func listStorages(c *world.Call) (any, error) {
	out := []any{}
	all, _ := c.State.StoragesByName()
	if name := c.Param("storage"); name != "" {
		st := c.Host().Stores[name]
		if st == nil || c.Params.Has("content") && !slices.ContainsFunc(schema.SplitList(c.Param("content")), func(t string) bool { return slices.Contains(st.Content, t) }) {
			return nil, answer.BadParam("storage", "No such storage.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		st := c.Host().Stores[name]
		away := st == nil
		if away { // it is another node's
			other := all[name]
			st = &world.Storage{Storage: model.Storage{Name: name, Type: other.Type, Content: other.Content, Shared: other.Shared, Config: other.Config, Disabled: true}}
		}
		if !access.CanAny(c.State, c.Who, "/storage/"+name, "Datastore.Audit", "Datastore.AllocateSpace") {
			continue
		}
		if want := c.Param("content"); want != "" && !slices.ContainsFunc(schema.SplitList(want), func(t string) bool { return slices.Contains(st.Content, t) }) {
			continue
		}
		if want := c.Param("storage"); want != "" && want != name {
			continue
		}
		if c.Params.Bool("enabled") && st.Disabled && !away || away && c.Params.Has("content") || !away && !sameOn(c, st) {
			continue
		}
		entry := st.State()
		entry["storage"] = name
		if c.Params.Bool("format") {
			formats := formats(st)
			can := map[string]any{}
			for _, f := range formats["supported"].([]string) {
				can[f] = 1
			}
			entry["formats"], entry["format"] = formats, []any{can, formats["default"]}
		}
		if entry["active"] == 1 {
			entry["used_fraction"] = float64(st.UsedBytes()) / float64(max(1, st.Size))
		}
		out = append(out, entry)
	}
	return out, nil
}

// storageStatus knows storages of other nodes, which are not enabled here.
func storageStatus(c *world.Call) (any, error) {
	if st := c.Host().Stores[c.Param("storage")]; st != nil {
		return st.State(), nil
	}
	all, _ := c.State.StoragesByName()
	if st := all[c.Param("storage")]; st != nil {
		return (&world.Storage{Storage: model.Storage{Type: st.Type, Content: st.Content, Shared: st.Shared, Disabled: true}}).State(), nil
	}
	return nil, answer.BadParam("storage", "No such storage.")
}

func storageContent(c *world.Call) (any, error) {
	st, err := c.Storage()
	if err == nil {
		err = st.Ready()
	}
	if err != nil {
		return nil, err
	}
	out := []any{}
	names := slices.SortedFunc(maps.Keys(st.Volumes), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		v := st.Volumes[name]
		if want := c.Param("content"); want != "" && want != v.Content {
			continue
		}
		if want := c.Param("vmid"); want != "" && want != strconv.Itoa(v.Owner) &&
			slices.Contains([]string{"images", "rootdir", "backup"}, v.Content) {
			continue // what has no owner is in every machine's list
		}
		if MayVolume(c.State, c.Who, st, v, 0) != nil {
			continue
		}
		out = append(out, entry(st, v))
	}
	return out, nil
}

func entry(st *world.Storage, v *world.Volume) map[string]any {
	e := map[string]any{"volid": st.Name + ":" + v.Name, "content": v.Content, "format": v.Format, "size": v.Size, "ctime": v.Made.Unix()}
	if about, err := st.ParseVolume(v.Name); err == nil && v.Content == "vztmpl" {
		e["format"] = about.Format
	}
	if v.Owner != 0 {
		e["vmid"] = v.Owner
		e["used"] = st.Takes(v)
	}
	if v.Content == "images" && st.FileBased() {
		e["parent"] = nil
	}
	if v.Base != nil {
		e["parent"] = path.Base(v.Base.Name)
		if st.FileBased() { // as the image itself has it
			e["parent"] = "../" + v.Base.OwnName()
		}
	}
	return e
}

// formats are those that disks may have on a storage, and that which they have
// unless told otherwise.
func formats(st *world.Storage) map[string]any {
	all := st.Formats()
	return map[string]any{"supported": slices.Sorted(slices.Values(all)), "default": all[0]}
}

// sameOn reports whether the node that a call names as target has a storage too.
func sameOn(c *world.Call, st *world.Storage) bool {
	if !c.Params.Has("target") {
		return true
	}
	target := c.State.Hosts[c.Param("target")]
	return target != nil && target.Stores[st.Name] != nil && !target.Stores[st.Name].Disabled
}

// RootFolders are those that every host has; the last is the one of the storage local (PVE/Storage/Plugin.pm, parse_config).
func RootFolders() []string {
	return strings.Fields("/bin /boot /dev /etc /home /lib /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var /var/lib /var/lib/vz")
}
