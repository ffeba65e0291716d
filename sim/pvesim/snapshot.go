package pvesim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func snapshotHandlers() map[string]handler {
	const snap = "/nodes/{node}/qemu/{vmid}/snapshot"
	return map[string]handler{
		"GET " + snap:                            (*call).listSnapshots,
		"POST " + snap:                           (*call).takeSnapshot,
		"DELETE " + snap + "/{snapname}":         (*call).deleteSnapshot,
		"GET " + snap + "/{snapname}/config":     (*call).snapshotConfig,
		"PUT " + snap + "/{snapname}/config":     (*call).describeSnapshot,
		"POST " + snap + "/{snapname}/rollback":  (*call).rollBack,
		"GET /nodes/{node}/qemu/{vmid}/feature":  (*call).feature,
		"PUT /nodes/{node}/qemu/{vmid}/unlink":   (*call).unlink,
		"POST /nodes/{node}/qemu/{vmid}/monitor": (*call).monitor,
	}
}

func (c *call) listSnapshots() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(v.snapshots)) {
		sn := v.snapshots[name]
		e := map[string]any{"name": name, "snaptime": sn.made.Unix(), "vmstate": boolInt(sn.memory), "description": sn.description}
		if sn.parent != "" {
			e["parent"] = sn.parent
		}
		if sn.state != "" {
			e["snapstate"] = sn.state
		}
		out = append(out, e)
	}
	now := map[string]any{"name": "current", "digest": v.sum(), "running": boolInt(v.running), "description": "You are here!"}
	if p := v.conf["parent"]; p != "" {
		now["parent"] = p
	}
	return append(out, now), nil
}

func (c *call) snapshotConfig() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	sn, err := v.snapshot(c.param("snapname"))
	if err != nil {
		return nil, err
	}
	return c.s.snapshotted(sn), nil
}

func (c *call) describeSnapshot() (any, error) {
	if !c.p.has("description") {
		return nil, nil
	}
	v, unlock, err := c.begin(c.worker(), change{})
	if err != nil {
		return nil, err
	}
	defer unlock()
	sn, err := v.snapshot(c.param("snapname"))
	if err != nil {
		return nil, err
	}
	sn.description = c.param("description")
	v.changed()
	return nil, nil
}

func (c *call) takeSnapshot() (any, error) {
	name := c.param("snapname")
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, die("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	withMemory, about := c.p.bool("vmstate"), c.param("description")
	return c.startTask("qmsnapshot", strconv.Itoa(v.id), func(w worker) error { return w.takeSnapshot(v, name, about, withMemory) })
}

// takeSnapshot is the work of qmsnapshot (PVE/AbstractConfig.pm, snapshot_create).
func (w worker) takeSnapshot(v *vm, name, about string, withMemory bool) error {
	sn := &snapshot{description: about, made: time.Now(), memory: withMemory && v.running, disks: map[string]frozen{}}
	err := w.locked(v, func() error {
		switch {
		case v.template():
			return die("you can't take a snapshot if it's a template")
		case v.checkLock() != nil:
			return v.checkLock()
		case v.snapshots[name] != nil:
			return die("snapshot name '%s' already used", name)
		case !w.s.canSnapshot(v, v.conf):
			return die("snapshot feature is not available")
		case sn.memory && len(v.pci) > 0:
			return die("VM %d qmp command 'savevm-start' failed - State blocked by non-migratable device '%s/vfio'", v.id, v.pci[0])
		}
		sn.conf, sn.parent, sn.state = maps.Clone(v.conf), v.conf["parent"], "prepare"
		delete(sn.conf, "parent")
		delete(sn.conf, "lock")
		if v.snapshots == nil {
			v.snapshots = map[string]*snapshot{}
		}
		v.snapshots[name] = sn
		v.set("lock", "snapshot")
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range w.s.disks(sn.conf) {
		volid := w.s.props(k, sn.conf[k])["file"]
		_, vol, err := w.s.hosts[v.node].lookup(volid)
		if err == nil {
			err = w.sleep(w.s.opts.Timing.Configure)
		}
		if err != nil {
			delete(v.snapshots, name)
			v.unset("lock")
			return err
		}
		w.log("snapshotting '%s' (%s)", "drive-"+k, volid)
		sn.disks[volid] = freeze(vol)
	}
	sn.state = ""
	v.set("parent", name)
	v.unset("lock")
	return nil
}

func freeze(v *volume) frozen {
	f := frozen{size: v.size}
	if d := v.contents(); d != nil {
		f.disk = d.Clone()
	}
	return f
}

func (c *call) deleteSnapshot() (any, error) {
	name := c.param("snapname")
	return c.startTask("qmdelsnapshot", strconv.Itoa(c.vmid()), func(w worker) error {
		v, err := c.vm()
		if err != nil {
			return err
		}
		return w.deleteSnapshot(v, name, c.p.bool("force"))
	})
}

func (w worker) deleteSnapshot(v *vm, name string, force bool) error {
	sn, err := v.snapshot(name)
	if err != nil {
		return err
	}
	err = w.locked(v, func() error {
		switch {
		case v.checkLock() != nil:
			return v.checkLock()
		case v.template():
			return die("you can't delete a snapshot if vm is a template")
		}
		sn.state = "delete"
		v.set("lock", "snapshot-delete")
		return nil
	})
	if err != nil {
		return err
	}
	for range sn.disks {
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil && !force {
			return err
		}
	}
	if v.conf["parent"] == name {
		v.settled("parent", sn.parent)
	}
	for _, other := range v.snapshots {
		if other.parent == name {
			other.parent = sn.parent
		}
	}
	delete(v.snapshots, name)
	v.unset("lock")
	return nil
}

func (c *call) rollBack() (any, error) {
	name, start := c.param("snapname"), c.p.bool("start")
	if start {
		if err := c.s.need(c.who, "/vms/"+strconv.Itoa(c.vmid()), "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return c.startTask("qmrollback", strconv.Itoa(c.vmid()), func(w worker) error {
		v, err := c.vm()
		if err != nil {
			return err
		}
		if err := w.rollBack(v, name); err != nil {
			return err
		}
		if start || v.snapshots[name].memory {
			return w.start(starting{id: v.id, node: v.node})
		}
		return nil
	})
}

func (w worker) rollBack(v *vm, name string) error {
	if v.template() {
		return die("you can't rollback if vm is a template")
	}
	sn, err := v.snapshot(name)
	if err != nil {
		return err
	}
	err = w.locked(v, func() error {
		switch {
		case sn.state != "":
			return die("unable to rollback to incomplete snapshot (snapstate = %s)", sn.state)
		case v.checkLock() != nil:
			return v.checkLock()
		}
		w.s.kill(v)
		v.set("lock", "rollback")
		return nil
	})
	if err != nil {
		return err
	}
	for volid, was := range sn.disks {
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
			return err
		}
		if _, vol, err := w.s.hosts[v.node].lookup(volid); err == nil {
			vol.size, vol.disk = was.size, nil
			if was.disk != nil {
				vol.disk = was.disk.Clone()
			}
		}
	}
	later := w.s.orphans(v.conf, sn.conf)
	v.conf, v.pending = maps.Clone(sn.conf), nil
	v.set("parent", name)
	for _, volid := range later {
		v.keepUnused(volid)
	}
	return nil
}

// orphans are the disks of one configuration that another does not know.
func (s *state) orphans(conf, other map[string]string) (volids []string) {
	known := map[string]bool{}
	for _, k := range s.disks(other) {
		known[s.props(k, other[k])["file"]] = true
	}
	for _, k := range s.disks(conf) {
		if f := s.props(k, conf[k])["file"]; !known[f] && !isCloudInit(f) {
			volids = append(volids, f)
		}
	}
	return volids
}
