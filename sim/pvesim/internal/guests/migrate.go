package guests

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// mayMigrate is the look before a migration: where to, and what stands against it.
func mayMigrate(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	if err := v.CheckLock(); err != nil {
		return nil, err
	}
	local, mapped := localResources(c.State, v)
	out := map[string]any{"running": answer.Flag(v.Running), "local_disks": localDisks(c.State, v), "local_resources": local,
		"mapped-resources": append([]string{}, slices.Sorted(maps.Keys(mapped))...), "mapped-resource-info": mapped, "has-dbus-vmstate": 1}
	allowed, not := []string{}, map[string]any{}
	for _, node := range c.State.Nodes() {
		if node == v.Node {
			continue
		}
		why := map[string]any{}
		if missing := missingStorages(c.State, v, node); len(missing) > 0 {
			why["unavailable_storages"] = missing
		}
		if missing := missingMappings(c.State, v, node); len(missing) > 0 {
			why["unavailable-resources"] = missing
		}
		if len(why) > 0 {
			not[node] = why
			continue
		}
		allowed = append(allowed, node)
	}
	out["allowed_nodes"], out["not_allowed_nodes"] = allowed, not
	return out, nil
}

// localResources are the devices that tie a VM to its host
// (PVE/QemuMigrate/Helpers.pm, check_local_resources).
func localResources(s *world.State, v *world.VM) (local []string, mapped map[string]any) {
	local, mapped = []string{}, map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(v.Conf)) {
		if !config.PassedThrough.MatchString(k) || strings.HasPrefix(k, "serial") && v.Conf[k] == "socket" {
			continue
		}
		name := s.Props(k, v.Conf[k])["mapping"]
		if name == "" {
			local = append(local, k)
			continue
		}
		info := map[string]any{"name": name}
		mapped[k] = info
		if m := s.Mappings[name]; strings.HasPrefix(k, "hostpci") && m != nil && m.Flags["live-migration-capable"] {
			info["live-migration"] = 1
		} else if v.Running {
			local = append(local, k)
		}
	}
	return local, mapped
}

func localDisks(s *world.State, v *world.VM) []any {
	out := []any{}
	for _, k := range world.Drives(v.Conf) {
		d := s.Props(k, v.Conf[k])
		st, vol, err := s.Hosts[v.Node].Lookup(d["file"])
		if err == nil && !st.Shared {
			out = append(out, map[string]any{"volid": d["file"], "drivename": k, "size": vol.Size,
				"cdrom": answer.Flag(world.IsCDROM(d)), "is_unused": 0,
				"is_vmstate": 0, "is_tpmstate": answer.Flag(k == "tpmstate0"), "is_cloudinit": answer.Flag(world.IsCloudInit(d["file"])), "is_attached": 1, "replicate": 1, "shared": 0})
		}
	}
	return out
}

func missingStorages(s *world.State, v *world.VM, node string) (names []string) {
	for _, k := range world.Drives(v.Conf) {
		st, _ := s.Hosts[v.Node].Volume(s.Props(k, v.Conf[k])["file"])
		if st != nil && s.Hosts[node].Stores[st.Name] == nil && !slices.Contains(names, st.Name) {
			names = append(names, st.Name)
		}
	}
	return names
}

func missingMappings(s *world.State, v *world.VM, node string) (keys []string) {
	for _, i := range pci.Slots(v.Conf) {
		key := "hostpci" + strconv.Itoa(i)
		m := s.Mappings[s.Props(key, v.Conf[key])["mapping"]]
		if m != nil && !slices.ContainsFunc(m.Entries, func(e string) bool { return pci.EntryProps(s, e)["node"] == node }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// migrate moves a VM to another node, with its disks where those are local.
func migrate(c *world.Call) (any, error) {
	target := c.Param("target")
	for _, name := range []string{"force", "migration_type", "migration_network"} {
		if err := config.RootOption(c, name); err != nil {
			return nil, err
		}
	}
	switch {
	case target == c.Param("node"):
		return nil, answer.BadParam("target", "target is local node.")
	case c.State.Hosts[target] == nil:
		return nil, answer.Die("no such cluster node '%s'", target)
	}
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	if err := v.CheckLock(); err != nil {
		return nil, err
	}
	if v.Running && !c.Params.Bool("online") {
		return nil, answer.Die("can't migrate running VM without --online")
	}
	store := c.Param("targetstorage")
	switch {
	case store != "":
		if err := access.Need(c.State, c.Who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if c.State.Hosts[target].Stores[store] == nil {
			return nil, answer.Die("storage '%s' is not available on node '%s'", store, target)
		}
	case len(missingStorages(c.State, v, target)) > 0:
		return nil, answer.Die("storage '%s' is not available on node '%s'", missingStorages(c.State, v, target)[0], target)
	}
	withDisks := c.Params.Bool("with-local-disks")
	return c.StartTask("qmigrate", strconv.Itoa(v.ID), func(w world.Worker) error {
		return config.WithLock(w, v, func() error {
			v.Set("lock", "migrate")
			err := migrateVM(w, v, target, store, withDisks)
			v.Unset("lock")
			if err != nil {
				w.Log("aborting phase 1 - cleanup resources")
				return answer.Die("migration aborted")
			}
			w.Log("migration finished successfully")
			return nil
		})
	})
}

func migrateVM(w world.Worker, v *world.VM, target, store string, withDisks bool) error {
	w.Log("starting migration of VM %d to node '%s'", v.ID, target)
	if local, _ := localResources(w.State, v); len(local) > 0 {
		w.Log("ERROR: migration aborted: can't migrate VM which uses local devices: %s", strings.Join(local, ", "))
		return answer.Die("can't migrate VM which uses local devices: %s", strings.Join(local, ", "))
	}
	moves := map[string]string{}
	for _, k := range config.OwnDrives(w.State, v.Conf) {
		volid := w.State.Props(k, v.Conf[k])["file"]
		st, vol, err := w.State.Hosts[v.Node].Lookup(volid)
		if err != nil || st.Shared {
			continue
		}
		if v.Running && !withDisks {
			w.Log("ERROR: can't live migrate attached local disks without with-local-disks option")
			return answer.Die("can't live migrate attached local disks without with-local-disks option")
		}
		w.Log("found local disk '%s' (attached)", volid)
		to := w.State.Hosts[target].Stores[st.Name]
		if store != "" {
			to = w.State.Hosts[target].Stores[store]
		}
		name, err := copyVolume(w, to, v.ID, vol, vol.Format, nil)
		if err != nil {
			return err
		}
		moves[k] = to.Name + ":" + name
	}
	if err := w.Sleep(w.State.Options.Timing.Start); err != nil {
		return err
	}
	h := w.State.Hosts[v.Node]
	for k, volid := range moves {
		d := w.State.Props(k, v.Conf[k])
		if st, name := h.Volume(d["file"]); st != nil {
			_ = st.Remove(name)
		}
		d["file"] = volid
		v.Set(k, w.State.PrintProps(k, d))
	}
	v.Node = target
	return nil
}
