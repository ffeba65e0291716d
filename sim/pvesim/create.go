package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *call) createVM() (any, error) {
	id := c.vmid()
	if !c.p.has("vmid") {
		id = c.s.freeID()
		c.p["vmid"] = []string{strconv.Itoa(id)}
	}
	if from := c.param("archive"); from != "" {
		if c.s.vms[id] != nil && !c.s.can(c.who, "/vms/"+strconv.Itoa(id), "VM.Allocate") {
			if err := c.s.need(c.who, "/vms/"+strconv.Itoa(id), "VM.Backup"); err != nil {
				return nil, err
			}
		}
		if err := c.mayRestore(from); err != nil {
			return nil, err
		}
		return nil, die("unable to restore VM %d - backups are not simulated", id)
	}
	opts := c.options()
	if err := checkSSHKeys(opts["sshkeys"]); err != nil {
		return nil, err
	}
	if err := c.mayCreate(id, opts); err != nil {
		return nil, err
	}
	if other := c.s.vms[id]; other != nil {
		return nil, die("unable to create VM %d - VM %d already exists on node '%s'", id, id, other.node)
	}
	now := time.Now()
	v := &vm{id: id, node: c.param("node"), pool: c.param("pool"), conf: map[string]string{"lock": "create"}, ctime: now, since: now}
	c.s.vms[id] = v
	fault := c.guestFaults()
	return c.startTask("qmcreate", strconv.Itoa(id), func(w worker) error {
		err := w.s.mayTagNew(c.who, id, opts)
		if err == nil {
			err = w.create(v, opts)
		}
		if err != nil {
			delete(c.s.vms, id)
			return die("unable to create VM %d - %s", id, err)
		}
		if c.p.bool("ha-managed") {
			resources := register{path: "/cluster/ha/resources", id: "sid"}
			w.s.entries(resources)["vm:"+strconv.Itoa(id)] = map[string][]string{"state": {"started"}}
		}
		if c.p.bool("start") {
			w.log("Execute autostart")
			if fault != nil {
				v.faults = *fault
			}
			c.s.spawn(func() {
				t := c.s.newTask(v.node, "qmstart", strconv.Itoa(id), c.who)
				c.s.work(t, nil, func(w worker) error { return w.start(starting{id: id, node: v.node}) })
			})
		}
		return nil
	}, func() { delete(c.s.vms, id) })
}

// mayCreate are the checks of a creation, all before the task.
func (c *call) mayCreate(id int, opts map[string]string) error {
	if err := c.needPool(); err != nil {
		return err
	}
	if !c.s.can(c.who, "/vms/"+strconv.Itoa(id), "VM.Allocate") && (!c.p.has("pool") || !c.s.can(c.who, "/pool/"+c.param("pool"), "VM.Allocate")) {
		return bareRefusal()
	}
	if err := c.rootOption("skiplock"); err != nil {
		return err
	}
	if c.p.bool("start") && c.s.nine() {
		if err := c.s.needOnVM(c.who, id, c.param("pool"), "VM.PowerMgmt"); err != nil {
			return err
		}
	}
	resolveCDROM(opts)
	keys := slices.Sorted(maps.Keys(opts))
	if err := c.mayStore(opts); err != nil {
		return err
	}
	if err := c.mayConfigure(id, keys); err != nil {
		return err
	}
	return c.mayUse(id, keys, opts)
}

// mayUse checks what options refer to: storages, devices, bridges, drives.
func (c *call) mayUse(id int, keys []string, opts map[string]string) error {
	for _, k := range keys {
		var err error
		switch {
		case passedThrough.MatchString(k):
			err = c.s.mayPassThrough(c.who, id, c.param("pool"), k, opts[k])
		case netKey.MatchString(k):
			err = c.s.mayBridge(c.who, k, opts[k])
		}
		if err != nil {
			return err
		}
	}
	return c.s.checkDriveParams(opts)
}

// create is the work of qmcreate.
func (w worker) create(v *vm, opts map[string]string) (err error) {
	unlock, err := w.lock(configLock(v.id), false, createLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	var made allocated
	defer func() {
		if err != nil {
			made.undo()
		}
	}()
	if err := w.s.oneCloudDrive(opts); err != nil {
		return err
	}
	for _, k := range drives(opts) {
		if m := newDisk.FindStringSubmatch(w.s.props(k, opts[k])["file"]); m != nil {
			if err := w.s.hosts[v.node].storeReady(m[1]); err != nil {
				return err
			}
		}
	}
	conf := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		value := opts[k]
		if isDrive(k) {
			if value, err = w.makeDrive(v, k, value, &made); err != nil {
				return err
			}
		}
		if conf[k], err = w.s.written(k, w.s.normal(k, value)); err != nil {
			return err
		}
	}
	maps.DeleteFunc(conf, func(_, value string) bool { return value == "" })
	if err := w.s.checkVGA(conf["vga"]); err != nil {
		return err
	}
	if conf["vmgenid"] == "" {
		conf["vmgenid"] = w.s.uuid()
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + w.s.uuid()
	}
	if pinned := w.s.pinnedMachine(conf["machine"], conf["ostype"]); pinned != "" {
		w.log("pinning machine type to '%s' for Windows guest OS", w.s.props("machine", pinned)["type"])
		conf["machine"] = pinned
	}
	if err := w.s.checkMachine(conf["machine"]); err != nil {
		return err
	}
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", w.s.qemu, time.Now().Unix())
	if conf["boot"] == "" {
		conf["boot"] = w.s.usualBoot(conf)
	}
	if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
		return err
	}
	v.conf = conf
	v.changed()
	return nil
}

// oneCloudDrive refuses a second cloud-init drive.
func (s *state) oneCloudDrive(opts map[string]string) error {
	var found []string
	for _, k := range drives(opts) {
		if isCloudInit(s.props(k, opts[k])["file"]) {
			found = append(found, k)
		}
	}
	if len(found) > 1 {
		return die("%s - cloud-init drive is already attached at '%s'", found[0], found[1])
	}
	return nil
}

// mayRestore refuses archives that are none (PVE/API2/Qemu.pm, create_vm).
func (c *call) mayRestore(from string) error {
	for _, k := range slices.Sorted(maps.Keys(c.p)) {
		if isDrive(k) {
			return badParam(k, "option conflicts with option 'archive'")
		}
	}
	switch {
	case from == "-":
		return die("pipe requires cli environment")
	case !strings.Contains(from, ":") && c.who.root():
		return die("can't find file '%s'", from)
	case !strings.Contains(from, ":"):
		return die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.")
	}
	_, _, err := c.host().lookup(from)
	return err
}

// drivesInOrder are those of a machine in the order in which Proxmox goes through them
// (PVE/QemuServer/Drive.pm, valid_drive_names).
func drivesInOrder(conf map[string]string) []string {
	rank := func(k string) int {
		bus := strings.TrimRight(k, "0123456789")
		return slices.Index([]string{"ide", "scsi", "virtio", "sata", "efidisk", "tpmstate"}, bus)*100 + atoi(strings.TrimPrefix(k, bus))
	}
	return slices.SortedStableFunc(slices.Values(drives(conf)), func(a, b string) int { return rank(a) - rank(b) })
}

// usualBoot is the boot order when none is given: first disk, first CD, first card.
func (s *state) usualBoot(conf map[string]string) string {
	var disk, cd, net string
	for _, k := range drivesInOrder(conf) {
		switch d := s.props(k, conf[k]); {
		case k == "efidisk0" || k == "tpmstate0":
		case isCDROM(d) && cd == "":
			cd = k
		case !isCDROM(d) && disk == "":
			disk = k
		}
	}
	for i := range 32 {
		if k := "net" + strconv.Itoa(i); conf[k] != "" {
			net = k
			break
		}
	}
	order := slices.DeleteFunc([]string{disk, cd, net}, func(k string) bool { return k == "" })
	if len(order) == 0 {
		return " "
	}
	return "order=" + strings.Join(order, ";")
}
