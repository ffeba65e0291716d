package guests

import (
	"slices"
	"strconv"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func destroyVM(c *world.Call) (any, error) {
	if err := config.RootOption(c, "skiplock"); err != nil {
		return nil, err
	}
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	protected := func() error { // which the task looks at again, under the configuration's lock
		if v.Conf["protection"] == "1" {
			return answer.Die("can't remove VM %d - protection mode enabled", v.ID)
		}
		return nil
	}
	switch {
	case protected() != nil:
		return nil, protected()
	case !c.Params.Bool("purge") && c.State.Entries(world.Register{Path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.ID)] != nil:
		return nil, answer.Die("unable to remove VM %d - used in HA resources and purge parameter not set.", v.ID)
	case v.Running:
		return nil, answer.Die("VM %d is running - destroy failed", v.ID)
	}
	purge, strays, skipLock := c.Params.Bool("purge"), c.Params.Bool("destroy-unreferenced-disks"), c.Params.Bool("skiplock")
	return c.StartTask("qmdestroy", strconv.Itoa(v.ID), func(w world.Worker) error {
		unlock, err := w.Lock(world.ConfigLock(v.ID), false, world.ConfigLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		if w.State.VMs[v.ID] != v {
			return answer.Die("unable to find configuration file for VM %d on node '%s'", v.ID, v.Node)
		}
		if err := protected(); err != nil {
			return err
		}
		if err := v.CheckLock(); err != nil && !skipLock && v.Conf["lock"] != "suspended" {
			return err
		}
		return destroy(w, v, purge, strays)
	})
}

func destroy(w world.Worker, v *world.VM, purge, strays bool) error {
	if v.Running {
		return answer.Die("VM %d is running - destroy failed", v.ID)
	}
	h := w.State.Hosts[v.Node]
	volids := volumesOf(w, v)
	if strays {
		volids = append(volids, h.VolumesOf(v.ID)...)
		slices.Sort(volids)
		volids = slices.Compact(volids)
	}
	for _, k := range drivesInOrder(v.Conf) {
		volid := w.State.Props(k, v.Conf[k])["file"]
		if st, name := h.Volume(volid); st != nil && st.Volumes[name] != nil && st.Volumes[name].Clones > 0 {
			return answer.Die("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	if err := w.Sleep(w.State.Options.Timing.Destroy); err != nil {
		return err
	}
	warned := 0
	kept := func(volid string, err error) {
		warned++
		w.Log("WARN: Could not remove disk '%s', check manually: %s", volid, err)
	}
	for _, volid := range volids {
		st, name := h.Volume(volid)
		if st != nil && st.Volumes[name] == nil && st.FileBased() && config.Owns(v, st, name) && !world.IsCloudInit(volid) {
			w.Log("disk image '%s' does not exist", st.Path(name))
		}
		if st == nil || st.Volumes[name] == nil || st.Volumes[name].Owner != v.ID {
			continue
		}
		unlock, err := w.LockStorage(st)
		if err != nil {
			kept(volid, err)
			continue
		}
		if err := w.Erase(st, name); err != nil {
			kept(volid, err)
		}
		unlock()
	}
	if purge {
		w.Log("purging VM %d from related configurations..", v.ID)
		sid := "vm:" + strconv.Itoa(v.ID)
		delete(w.State.Entries(world.Register{Path: "/cluster/ha/resources"}), sid)
		w.State.LeaveHARules(sid)
	}
	delete(w.State.VMs, v.ID)
	w.State.Release(v)
	delete(w.State.Firewalls, "vm/"+strconv.Itoa(v.ID))
	access.ForgetACLs(w.State, "/vms/"+strconv.Itoa(v.ID))
	if warned > 0 && !release.Before(w.State, 9, 2) { // as of qemu-server's 42e450dc
		return world.Warnings(warned)
	}
	return nil
}

// driveToErase is the volume of a drive that goes with its VM: a CD that somebody put in
// stays, though it bear the VM's number (PVE/QemuServer.pm, destroy_vm).
func driveToErase(w world.Worker, key, value string) string {
	d := w.State.Props(key, value)
	if world.IsCDROM(d) && !world.IsCloudInit(d["file"]) {
		return ""
	}
	return d["file"]
}

// volumesOf are the volumes that a configuration names.
func volumesOf(w world.Worker, v *world.VM) (volids []string) {
	for k, value := range v.Conf {
		switch {
		case world.IsDrive(k):
			volids = append(volids, driveToErase(w, k, value))
		case k == "vmstate", world.UnusedKey.MatchString(k):
			volids = append(volids, value)
		}
	}
	for k, value := range v.Pending {
		if world.IsDrive(k) && value != "" {
			volids = append(volids, driveToErase(w, k, value))
		}
	}
	slices.Sort(volids)
	return slices.Compact(volids)
}
