package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// moveDisk brings a disk to another storage or format, or to another VM.
func (c *call) moveDisk() (any, error) {
	target, store := c.p.has("target-vmid"), c.p.has("storage")
	bad := func(text string) error {
		return fail(400, "Parameter verification failed.").with("target-vmid", text).with("storage", text)
	}
	switch {
	case target && store:
		return nil, bad("either set 'storage' or 'target-vmid', but not both")
	case target:
		return c.reassignDisk()
	case !store:
		return nil, bad("both 'storage' and 'target-vmid' missing, either needs to be set")
	}
	if err := c.s.need(c.who, "/storage/"+c.param("storage"), "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := c.checkMove(); err != nil {
		return nil, err
	}
	return c.startTask("qmmove", strconv.Itoa(c.vmid()), func(w worker) error {
		unlock, err := w.lock(configLock(c.vmid()), false, configLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		v, err := c.checkMove()
		if err != nil {
			return err
		}
		if err := w.moveDisk(v, c.param("disk"), c.param("storage"), c.param("format"), c.p.bool("delete")); err != nil {
			return die("storage migration failed: %s", err)
		}
		if v.template() {
			return w.toTemplate(v, c.param("disk"))
		}
		return nil
	})
}

// checkMove is looked at before the task, and in it once more.
func (c *call) checkMove() (*vm, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	key := c.param("disk")
	d := c.s.props(key, v.conf[key])
	from, vol := c.host().volume(d["file"])
	to := c.host().storages[c.param("storage")]
	digest := c.param("digest")
	switch {
	case v.checkLock() != nil:
		return nil, v.checkLock()
	case digest != "" && digest != v.sum():
		return nil, die("detected modified configuration - file changed by other user? Try again.")
	case v.conf[key] == "":
		return nil, die("disk '%s' does not exist", key)
	case isCDROM(d) && !isCloudInit(d["file"]):
		return nil, die("you can't move a cdrom")
	case to == nil:
		return nil, die("storage '%s' does not exist", c.param("storage"))
	case from == to && (c.param("format") == "" || from.volumes[vol] != nil && from.volumes[vol].format == c.param("format")):
		return nil, die("you can't move to the same storage with same format")
	case !slices.Contains(to.Content, "images"):
		return nil, badParam("storage", "storage '"+to.Name+"' does not support vm images")
	case c.p.bool("delete") && v.keptBySnapshot(d["file"]):
		return nil, die("you can't move a disk with snapshots and delete the source")
	}
	return v, nil
}

func (w worker) moveDisk(v *vm, key, store, format string, remove bool) error {
	h := w.s.hosts[v.node]
	d := w.s.props(key, v.conf[key])
	old := d["file"]
	from, source, err := h.lookup(old)
	if err != nil {
		return err
	}
	w.log("copying volume '%s' from current storage '%s' to target storage '%s'", old, from.Name, store)
	to := h.storages[store]
	if format == "" {
		format = source.format
	}
	if !to.fileBased() {
		format = "raw"
	}
	w.log("create full clone of drive %s (%s)", key, old)
	name, err := w.copyVolume(to, v.id, source, format, nil)
	if err != nil {
		return err
	}
	d["file"] = store + ":" + name
	if isCloudInit(old) {
		d["size"] = formatSize(source.size)
	}
	v.set(key, w.s.printProps(key, d))
	if isCloudInit(old) && !remove { // Proxmox keeps none of these, and stumbles over it
		w.log("found unused cloudinit disk '%s', removing it", old)
		w.log("Use of uninitialized value $unused_key in concatenation (.) or string at /usr/share/perl5/PVE/API2/Qemu.pm line 4960.")
		w.log("adding source volume '%s' as '' to config", old)
		return w.erase(from, source.name)
	}
	if !remove {
		w.log("adding source volume '%s' as '%s' to config", old, v.keepUnused(old))
		return nil
	}
	w.log("removing source volume '%s' after successful copy", old)
	unlock, err := w.lockStorage(from)
	if err != nil {
		w.log("%s", err)
		return nil
	}
	defer unlock()
	if err := w.erase(from, source.name); err != nil {
		w.log("%s", err)
	}
	return nil
}

// copyVolume makes a disk like another on a storage and returns its name.
func (w worker) copyVolume(to *storage, owner int, source *volume, format string, made *allocated) (string, error) {
	name := to.newName(owner, "vm", format)
	if isCloudInit(source.name) {
		name = to.full(owner, fmt.Sprintf("vm-%d-cloudinit", owner), format)
	}
	if err := w.allocate(to, name, owner, source.size, made); err != nil {
		return "", err
	}
	w.log("allocated target volume '%s:%s'", to.Name, name)
	if err := w.copyData(source.size); err != nil {
		_ = to.remove(name)
		return "", err
	}
	if below := source.contents(); below != nil {
		to.volumes[name].disk = below.Clone()
	}
	return name, nil
}

// reassignDisk gives a disk of one VM to another.
func (c *call) reassignDisk() (any, error) {
	other := c.p.int("target-vmid", 0)
	if other == c.vmid() {
		return nil, badParam("target-vmid", "must be different than source VMID to reassign disk")
	}
	if err := c.s.need(c.who, "/vms/"+strconv.Itoa(other), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	key, as := c.param("disk"), c.param("target-disk")
	if as == "" {
		as = key
	}
	v, to, err := c.checkReassign(key, as, other)
	if err != nil {
		return nil, err
	}
	store, _, _ := strings.Cut(c.s.props("scsi0", v.conf[key])["file"], ":")
	if err := c.s.need(c.who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	return c.startTask("qmmove", strconv.Itoa(v.id)+"-"+key+">"+strconv.Itoa(other)+"-"+as, func(w worker) error {
		return w.locked(v, func() error {
			return w.locked(to, func() error {
				if _, _, err := c.checkReassign(key, as, other); err != nil {
					return err
				}
				w.log("reassign disk '%s' from VM '%d' as '%s' to VM '%d'", key, v.id, as, other)
				return w.reassign(v, key, to, as)
			})
		})
	})
}

func (c *call) checkReassign(key, as string, other int) (v, to *vm, err error) {
	v, to = c.s.vms[c.vmid()], c.s.vms[other]
	switch {
	case v == nil:
		return nil, nil, die("could not find VM %d", c.vmid())
	case to == nil:
		return nil, nil, die("could not find target VM %d", other)
	case v.node != to.node:
		return nil, nil, die("Both VMs need to be on the same node (%s != %s)", v.node, to.node)
	case v.checkLock() != nil:
		return nil, nil, v.checkLock()
	case to.checkLock() != nil:
		return nil, nil, to.checkLock()
	case v.template() || to.template():
		return nil, nil, die("Can't move disks from or to template VMs")
	case c.p.has("digest") && c.param("digest") != v.sum():
		return nil, nil, die("VM %d: detected modified configuration - file changed by other user? Try again.", v.id)
	case c.p.has("target-digest") && c.param("target-digest") != to.sum():
		return nil, nil, die("VM %d: detected modified configuration - file changed by other user? Try again.", to.id)
	case v.conf[key] == "":
		return nil, nil, die("Disk '%s' for VM '%d' does not exist", key, v.id)
	case to.conf[as] != "":
		return nil, nil, die("Target disk key '%s' is already in use for VM '%d'", as, other)
	case isCDROM(c.s.props(key, v.conf[key])):
		return nil, nil, die("CD drive contents can't be moved to another VM")
	case v.keptBySnapshot(c.s.props(key, v.conf[key])["file"]):
		return nil, nil, die("Can't move disk used by a snapshot to another VM")
	case v.running && !unusedKey.MatchString(key):
		return nil, nil, die("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return v, to, nil
}

func (w worker) reassign(v *vm, key string, to *vm, as string) error {
	d := w.s.props(key, v.conf[key])
	if unusedKey.MatchString(key) {
		d = map[string]string{"file": v.conf[key]}
	}
	st, vol, err := w.s.hosts[v.node].lookup(d["file"])
	if err != nil {
		return err
	}
	name := st.newName(to.id, "vm", vol.format)
	delete(st.volumes, vol.name)
	vol.name, vol.owner = name, to.id
	st.volumes[name] = vol
	d["file"] = st.Name + ":" + name
	if _, order, ok := strings.Cut(v.conf["boot"], "order="); ok && slices.Contains(splitList(order), key) {
		w.log("removing disk '%s' from boot order config", key)
		v.set("boot", printBootOrder(slices.DeleteFunc(splitList(order), func(k string) bool { return k == key })))
	}
	w.log("removing disk '%s' from VM '%d' config", key, v.id)
	v.unset(key)
	if unusedKey.MatchString(as) {
		to.set(as, d["file"])
		return nil
	}
	told := maps.Clone(d)
	d["size"] = formatSize(vol.size)
	if !unusedKey.MatchString(key) { // whose size is found out later
		told = d
	}
	keys := maps.Keys(d)
	known := w.s.configKeys()[as].Format.Keys
	for _, k := range slices.Collect(keys) {
		if known[k] == nil {
			delete(d, k)
		}
	}
	w.log("update VM %d: -%s %s", to.id, as, w.s.printProps(as, told))
	to.set(as, w.s.printProps(as, d))
	return nil
}
