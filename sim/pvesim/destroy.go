package pvesim

import (
	"slices"
	"strconv"
)

func (c *call) destroyVM() (any, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	protected := func() error { // which the task looks at again, under the configuration's lock
		if v.conf["protection"] == "1" {
			return die("can't remove VM %d - protection mode enabled", v.id)
		}
		return nil
	}
	switch {
	case protected() != nil:
		return nil, protected()
	case !c.p.bool("purge") && c.s.entries(register{path: "/cluster/ha/resources"})["vm:"+strconv.Itoa(v.id)] != nil:
		return nil, die("unable to remove VM %d - used in HA resources and purge parameter not set.", v.id)
	case v.running:
		return nil, die("VM %d is running - destroy failed", v.id)
	}
	purge, strays, skipLock := c.p.bool("purge"), c.p.bool("destroy-unreferenced-disks"), c.p.bool("skiplock")
	return c.startTask("qmdestroy", strconv.Itoa(v.id), func(w worker) error {
		unlock, err := w.lock(configLock(v.id), false, configLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		if w.s.vms[v.id] != v {
			return die("unable to find configuration file for VM %d on node '%s'", v.id, v.node)
		}
		if err := protected(); err != nil {
			return err
		}
		if err := v.checkLock(); err != nil && !skipLock && v.conf["lock"] != "suspended" {
			return err
		}
		return w.destroy(v, purge, strays)
	})
}

func (w worker) destroy(v *vm, purge, strays bool) error {
	if v.running {
		return die("VM %d is running - destroy failed", v.id)
	}
	h := w.s.hosts[v.node]
	volids := w.referenced(v)
	if strays {
		volids = append(volids, h.owned(v.id)...)
		slices.Sort(volids)
		volids = slices.Compact(volids)
	}
	for _, k := range drivesInOrder(v.conf) {
		volid := w.s.props(k, v.conf[k])["file"]
		if st, name := h.volume(volid); st != nil && st.volumes[name] != nil && st.volumes[name].clones > 0 {
			return die("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	if err := w.sleep(w.s.opts.Timing.Destroy); err != nil {
		return err
	}
	warned := 0
	kept := func(volid string, err error) {
		warned++
		w.log("WARN: Could not remove disk '%s', check manually: %s", volid, err)
	}
	for _, volid := range volids {
		st, name := h.volume(volid)
		if st != nil && st.volumes[name] == nil && st.fileBased() && v.owns(st, name) && !isCloudInit(volid) {
			w.log("disk image '%s' does not exist", st.path(name))
		}
		if st == nil || st.volumes[name] == nil || st.volumes[name].owner != v.id {
			continue
		}
		unlock, err := w.lockStorage(st)
		if err != nil {
			kept(volid, err)
			continue
		}
		if err := w.erase(st, name); err != nil {
			kept(volid, err)
		}
		unlock()
	}
	if purge {
		w.log("purging VM %d from related configurations..", v.id)
	}
	delete(w.s.vms, v.id)
	delete(w.s.firewalls, "vm/"+strconv.Itoa(v.id))
	w.s.forgetACLs("/vms/" + strconv.Itoa(v.id))
	if warned > 0 && !w.s.before(9, 2) { // as of qemu-server's 42e450dc
		return warnings(warned)
	}
	return nil
}

// driveToErase is the volume of a drive that goes with its VM: a CD that somebody put in
// stays, though it bear the VM's number (PVE/QemuServer.pm, destroy_vm).
func (w worker) driveToErase(key, value string) string {
	d := w.s.props(key, value)
	if isCDROM(d) && !isCloudInit(d["file"]) {
		return ""
	}
	return d["file"]
}

// referenced are the volumes that a configuration names.
func (w worker) referenced(v *vm) (volids []string) {
	for k, value := range v.conf {
		switch {
		case isDrive(k):
			volids = append(volids, w.driveToErase(k, value))
		case k == "vmstate", unusedKey.MatchString(k):
			volids = append(volids, value)
		}
	}
	for k, value := range v.pending {
		if isDrive(k) && value != "" {
			volids = append(volids, w.driveToErase(k, value))
		}
	}
	slices.Sort(volids)
	return slices.Compact(volids)
}
