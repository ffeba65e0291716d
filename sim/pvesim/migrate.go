package pvesim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mayMigrate is the look before a migration: where to, and what stands against it.
func (c *call) mayMigrate() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	local, mapped := c.s.localResources(v)
	out := map[string]any{"running": boolInt(v.running), "local_disks": c.s.localDisks(v), "local_resources": local,
		"mapped-resources": append([]string{}, slices.Sorted(maps.Keys(mapped))...), "mapped-resource-info": mapped, "has-dbus-vmstate": 1}
	allowed, not := []string{}, map[string]any{}
	for _, node := range c.s.nodes() {
		if node == v.node {
			continue
		}
		why := map[string]any{}
		if missing := c.s.missingStorages(v, node); len(missing) > 0 {
			why["unavailable_storages"] = missing
		}
		if missing := c.s.missingMappings(v, node); len(missing) > 0 {
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
func (s *state) localResources(v *vm) (local []string, mapped map[string]any) {
	local, mapped = []string{}, map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(v.conf)) {
		if !passedThrough.MatchString(k) || strings.HasPrefix(k, "serial") && v.conf[k] == "socket" {
			continue
		}
		name := s.props(k, v.conf[k])["mapping"]
		if name == "" {
			local = append(local, k)
			continue
		}
		info := map[string]any{"name": name}
		mapped[k] = info
		if m := s.mappings[name]; strings.HasPrefix(k, "hostpci") && m != nil && m.flags["live-migration-capable"] {
			info["live-migration"] = 1
		} else if v.running {
			local = append(local, k)
		}
	}
	return local, mapped
}

func (s *state) localDisks(v *vm) []any {
	out := []any{}
	for _, k := range drives(v.conf) {
		d := s.props(k, v.conf[k])
		st, vol, err := s.hosts[v.node].lookup(d["file"])
		if err == nil && !st.Shared {
			out = append(out, map[string]any{"volid": d["file"], "drivename": k, "size": vol.size, "cdrom": boolInt(isCDROM(d)), "is_unused": 0,
				"is_vmstate": 0, "is_tpmstate": boolInt(k == "tpmstate0"), "is_cloudinit": boolInt(isCloudInit(d["file"])), "is_attached": 1, "replicate": 1, "shared": 0})
		}
	}
	return out
}

func (s *state) missingStorages(v *vm, node string) (names []string) {
	for _, k := range drives(v.conf) {
		st, _ := s.hosts[v.node].volume(s.props(k, v.conf[k])["file"])
		if st != nil && s.hosts[node].storages[st.Name] == nil && !slices.Contains(names, st.Name) {
			names = append(names, st.Name)
		}
	}
	return names
}

func (s *state) missingMappings(v *vm, node string) (keys []string) {
	for _, i := range hostpci(v.conf) {
		key := "hostpci" + strconv.Itoa(i)
		m := s.mappings[s.props(key, v.conf[key])["mapping"]]
		if m != nil && !slices.ContainsFunc(m.entries, func(e string) bool { return s.entryProps(e)["node"] == node }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// migrate moves a VM to another node, with its disks where those are local.
func (c *call) migrate() (any, error) {
	target := c.param("target")
	for _, name := range []string{"force", "migration_type", "migration_network"} {
		if err := c.rootOption(name); err != nil {
			return nil, err
		}
	}
	switch {
	case target == c.param("node"):
		return nil, badParam("target", "target is local node.")
	case c.s.hosts[target] == nil:
		return nil, die("no such cluster node '%s'", target)
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if v.running && !c.p.bool("online") {
		return nil, die("can't migrate running VM without --online")
	}
	store := c.param("targetstorage")
	switch {
	case store != "":
		if err := c.s.need(c.who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
		if c.s.hosts[target].storages[store] == nil {
			return nil, die("storage '%s' is not available on node '%s'", store, target)
		}
	case len(c.s.missingStorages(v, target)) > 0:
		return nil, die("storage '%s' is not available on node '%s'", c.s.missingStorages(v, target)[0], target)
	}
	withDisks := c.p.bool("with-local-disks")
	return c.startTask("qmigrate", strconv.Itoa(v.id), func(w worker) error {
		return w.locked(v, func() error {
			v.set("lock", "migrate")
			err := w.migrate(v, target, store, withDisks)
			v.unset("lock")
			if err != nil {
				w.log("aborting phase 1 - cleanup resources")
				return die("migration aborted")
			}
			w.log("migration finished successfully")
			return nil
		})
	})
}

func (w worker) migrate(v *vm, target, store string, withDisks bool) error {
	w.log("starting migration of VM %d to node '%s'", v.id, target)
	if local, _ := w.s.localResources(v); len(local) > 0 {
		w.log("ERROR: migration aborted: can't migrate VM which uses local devices: %s", strings.Join(local, ", "))
		return die("can't migrate VM which uses local devices: %s", strings.Join(local, ", "))
	}
	moves := map[string]string{}
	for _, k := range w.s.carried(v.conf) {
		volid := w.s.props(k, v.conf[k])["file"]
		st, vol, err := w.s.hosts[v.node].lookup(volid)
		if err != nil || st.Shared {
			continue
		}
		if v.running && !withDisks {
			w.log("ERROR: can't live migrate attached local disks without with-local-disks option")
			return die("can't live migrate attached local disks without with-local-disks option")
		}
		w.log("found local disk '%s' (attached)", volid)
		to := w.s.hosts[target].storages[st.Name]
		if store != "" {
			to = w.s.hosts[target].storages[store]
		}
		name, err := w.copyVolume(to, v.id, vol, vol.format, nil)
		if err != nil {
			return err
		}
		moves[k] = to.Name + ":" + name
	}
	if err := w.sleep(w.s.opts.Timing.Start); err != nil {
		return err
	}
	h := w.s.hosts[v.node]
	for k, volid := range moves {
		d := w.s.props(k, v.conf[k])
		if st, name := h.volume(d["file"]); st != nil {
			_ = st.remove(name)
		}
		d["file"] = volid
		v.set(k, w.s.printProps(k, d))
	}
	v.node = target
	return nil
}
