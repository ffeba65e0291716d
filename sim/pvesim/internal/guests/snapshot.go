package guests

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/running"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func snapshotHandlers() map[string]world.Handler {
	const snap = "/nodes/{node}/qemu/{vmid}/snapshot"
	return map[string]world.Handler{
		"GET " + snap:                            listSnapshots,
		"POST " + snap:                           takeSnapshot,
		"DELETE " + snap + "/{snapname}":         deleteSnapshot,
		"GET " + snap + "/{snapname}/config":     snapshotConfig,
		"PUT " + snap + "/{snapname}/config":     describeSnapshot,
		"POST " + snap + "/{snapname}/rollback":  rollBack,
		"GET /nodes/{node}/qemu/{vmid}/feature":  feature,
		"PUT /nodes/{node}/qemu/{vmid}/unlink":   unlink,
		"POST /nodes/{node}/qemu/{vmid}/monitor": monitor,
	}
}

func listSnapshots(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(v.Snapshots)) {
		sn := v.Snapshots[name]
		e := map[string]any{"name": name, "snaptime": sn.Made.Unix(), "vmstate": answer.Flag(sn.Memory), "description": sn.Description}
		if sn.Parent != "" {
			e["parent"] = sn.Parent
		}
		if sn.State != "" {
			e["snapstate"] = sn.State
		}
		out = append(out, e)
	}
	now := map[string]any{"name": "current", "digest": v.Sum(), "running": answer.Flag(v.Running), "description": "You are here!"}
	if p := v.Conf["parent"]; p != "" {
		now["parent"] = p
	}
	return append(out, now), nil
}

func snapshotConfig(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	sn, err := v.Snapshot(c.Param("snapname"))
	if err != nil {
		return nil, err
	}
	return config.SnapshotSection(c.State, sn), nil
}

func describeSnapshot(c *world.Call) (any, error) {
	if !c.Params.Has("description") {
		return nil, nil
	}
	v, unlock, err := config.Begin(c, c.Worker(), config.Change{})
	if err != nil {
		return nil, err
	}
	defer unlock()
	sn, err := v.Snapshot(c.Param("snapname"))
	if err != nil {
		return nil, err
	}
	sn.Description = c.Param("description")
	v.Invalidate()
	return nil, nil
}

func takeSnapshot(c *world.Call) (any, error) {
	name := c.Param("snapname")
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, answer.Die("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	withMemory, about := c.Params.Bool("vmstate"), c.Param("description")
	return c.StartTask("qmsnapshot", strconv.Itoa(v.ID), func(w world.Worker) error { return snapshotVM(w, v, name, about, withMemory) })
}

// snapshotVM is the work of qmsnapshot (PVE/AbstractConfig.pm, snapshot_create).
func snapshotVM(w world.Worker, v *world.VM, name, about string, withMemory bool) error {
	sn := &world.Snapshot{Description: about, Made: time.Now(), Memory: withMemory && v.Running, Disks: map[string]world.Frozen{}}
	err := config.WithLock(w, v, func() error {
		switch {
		case v.Template():
			return answer.Die("you can't take a snapshot if it's a template")
		case v.CheckLock() != nil:
			return v.CheckLock()
		case v.Snapshots[name] != nil:
			return answer.Die("snapshot name '%s' already used", name)
		case !config.Have(w.State, v, v.Conf, "snapshot", false):
			return answer.Die("snapshot feature is not available")
		case sn.Memory && len(v.PCI) > 0:
			return answer.Die("VM %d qmp command 'savevm-start' failed - State blocked by non-migratable device '%s/vfio'", v.ID, v.PCI[0])
		}
		sn.Conf, sn.Parent, sn.State = maps.Clone(v.Conf), v.Conf["parent"], "prepare"
		delete(sn.Conf, "parent")
		delete(sn.Conf, "lock")
		if v.Snapshots == nil {
			v.Snapshots = map[string]*world.Snapshot{}
		}
		v.Snapshots[name] = sn
		v.Set("lock", "snapshot")
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range config.Disks(w.State, sn.Conf) {
		volid := w.State.Props(k, sn.Conf[k])["file"]
		_, vol, err := w.State.Hosts[v.Node].Lookup(volid)
		if err == nil {
			err = w.Sleep(w.State.Options.Timing.Configure)
		}
		if err != nil {
			delete(v.Snapshots, name)
			v.Unset("lock")
			return err
		}
		w.Log("snapshotting '%s' (%s)", "drive-"+k, volid)
		sn.Disks[volid] = freeze(vol)
	}
	sn.State = ""
	v.Set("parent", name)
	v.Unset("lock")
	return nil
}

func freeze(v *world.Volume) world.Frozen {
	f := world.Frozen{Size: v.Size}
	if d := v.Contents(); d != nil {
		f.Disk = d.Clone()
	}
	return f
}

func deleteSnapshot(c *world.Call) (any, error) {
	name := c.Param("snapname")
	return c.StartTask("qmdelsnapshot", strconv.Itoa(c.VMID()), func(w world.Worker) error {
		v, err := c.VM()
		if err != nil {
			return err
		}
		return dropSnapshot(w, v, name, c.Params.Bool("force"))
	})
}

func dropSnapshot(w world.Worker, v *world.VM, name string, force bool) error {
	sn, err := v.Snapshot(name)
	if err != nil {
		return err
	}
	err = config.WithLock(w, v, func() error {
		switch {
		case v.CheckLock() != nil:
			return v.CheckLock()
		case v.Template():
			return answer.Die("you can't delete a snapshot if vm is a template")
		}
		sn.State = "delete"
		v.Set("lock", "snapshot-delete")
		return nil
	})
	if err != nil {
		return err
	}
	for range sn.Disks {
		if err := w.Sleep(w.State.Options.Timing.Configure); err != nil && !force {
			return err
		}
	}
	if v.Conf["parent"] == name {
		config.ApplyValue(v, "parent", sn.Parent)
	}
	for _, other := range v.Snapshots {
		if other.Parent == name {
			other.Parent = sn.Parent
		}
	}
	delete(v.Snapshots, name)
	v.Unset("lock")
	return nil
}

func rollBack(c *world.Call) (any, error) {
	name, start := c.Param("snapname"), c.Params.Bool("start")
	if start {
		if err := access.Need(c.State, c.Who, "/vms/"+strconv.Itoa(c.VMID()), "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return c.StartTask("qmrollback", strconv.Itoa(c.VMID()), func(w world.Worker) error {
		v, err := c.VM()
		if err != nil {
			return err
		}
		if err := rollBackVM(w, v, name); err != nil {
			return err
		}
		if start || v.Snapshots[name].Memory {
			return running.Start(w, running.Starting{ID: v.ID, Node: v.Node})
		}
		return nil
	})
}

func rollBackVM(w world.Worker, v *world.VM, name string) error {
	if v.Template() {
		return answer.Die("you can't rollback if vm is a template")
	}
	sn, err := v.Snapshot(name)
	if err != nil {
		return err
	}
	err = config.WithLock(w, v, func() error {
		switch {
		case sn.State != "":
			return answer.Die("unable to rollback to incomplete snapshot (snapstate = %s)", sn.State)
		case v.CheckLock() != nil:
			return v.CheckLock()
		}
		running.Kill(w.State, v)
		v.Set("lock", "rollback")
		return nil
	})
	if err != nil {
		return err
	}
	for volid, was := range sn.Disks {
		if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
			return err
		}
		if _, vol, err := w.State.Hosts[v.Node].Lookup(volid); err == nil {
			vol.Size, vol.Disk = was.Size, nil
			if was.Disk != nil {
				vol.Disk = was.Disk.Clone()
			}
		}
	}
	later := orphans(w.State, v.Conf, sn.Conf)
	v.Conf, v.Pending = maps.Clone(sn.Conf), nil
	v.Set("parent", name)
	for _, volid := range later {
		config.KeepUnused(v, volid)
	}
	return nil
}

// orphans are the disks of one configuration that another does not know.
func orphans(s *world.State, conf, other map[string]string) (volids []string) {
	known := map[string]bool{}
	for _, k := range config.Disks(s, other) {
		known[s.Props(k, other[k])["file"]] = true
	}
	for _, k := range config.Disks(s, conf) {
		if f := s.Props(k, conf[k])["file"]; !known[f] && !world.IsCloudInit(f) {
			volids = append(volids, f)
		}
	}
	return volids
}
