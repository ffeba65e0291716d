package pvesim

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// snapshot is a section of a VM's configuration file, with what the VM's volumes
// held in that moment.
type snapshot struct {
	conf        map[string]string
	description string
	parent      string
	made        time.Time
	memory      bool // the state of a running VM is in it
	state       string
	disks       map[string]frozen // by volume ID
}

// frozen is a volume as it was.
type frozen struct {
	size int64
	disk Disk
}

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

// snapshot returns the one that a call names.
func (v *vm) snapshot(name string) (*snapshot, error) {
	if sn := v.snapshots[name]; sn != nil {
		return sn, nil
	}
	return nil, die("snapshot '%s' does not exist", name)
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

// snapshotted is a snapshot's section of the configuration file.
func (s *Sim) snapshotted(sn *snapshot) map[string]any {
	out := map[string]any{"snaptime": sn.made.Unix()}
	for k, value := range sn.conf {
		out[k] = s.typed(k, value)
	}
	for k, value := range map[string]string{"description": sn.description, "parent": sn.parent, "snapstate": sn.state} {
		if value != "" {
			out[k] = value
		}
	}
	return out
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
	return c.startTask("qmsnapshot", itoa(v.id), func(w worker) error { return w.takeSnapshot(v, name, about, withMemory) })
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

// locked does something to a configuration while its file is locked.
func (w worker) locked(v *vm, do func() error) error {
	unlock, err := w.lock(configLock(v.id), false, configLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	if w.s.vms[v.id] != v {
		return die("unable to find configuration file for VM %d on node '%s'", v.id, v.node)
	}
	return do()
}

// disks are the drives of a configuration that are none for CDs: a cloud-init drive
// is one (PVE/QemuServer/Drive.pm, drive_is_cdrom).
func (s *Sim) disks(conf map[string]string) []string {
	return slices.DeleteFunc(drives(conf), func(k string) bool { return isCDROM(s.props(k, conf[k])) })
}

// carried are the drives whose volumes go where the VM goes: disks, and its
// cloud-init drive.
func (s *Sim) carried(conf map[string]string) []string {
	return slices.DeleteFunc(drives(conf), func(k string) bool {
		d := s.props(k, conf[k])
		return isCDROM(d) && !isCloudInit(d["file"])
	})
}

// canSnapshot reports whether all the disks are where snapshots can be taken:
// files must be qcow2 for that (PVE/Storage/Plugin.pm, volume_has_feature).
func (s *Sim) canSnapshot(v *vm, conf map[string]string) bool {
	return !slices.ContainsFunc(s.disks(conf), func(k string) bool {
		st, vol, err := s.hosts[v.node].lookup(s.props(k, conf[k])["file"])
		return err != nil || st.fileBased() && vol.format != "qcow2" || st.Type == "lvm"
	})
}

func (c *call) deleteSnapshot() (any, error) {
	name := c.param("snapname")
	return c.startTask("qmdelsnapshot", itoa(c.vmid()), func(w worker) error {
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
		if err := c.s.need(c.who, "/vms/"+itoa(c.vmid()), "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return c.startTask("qmrollback", itoa(c.vmid()), func(w worker) error {
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
func (s *Sim) orphans(conf, other map[string]string) (volids []string) {
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
