package pvesim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cloning is what a call to clone asks for.
type cloning struct {
	source  *vm
	node    string // of the source
	target  string // node of the clone
	newID   int
	name    string
	pool    string
	storage string // of full copies; empty is where the source's are
	format  string
	full    bool
	about   string            // description
	snap    string            // snapshot; empty is the VM as it is
	conf    map[string]string // of the source, or of its snapshot
}

func (c *call) cloneVM() (any, error) {
	v, err := c.s.find(c.vmid(), c.param("node"))
	if err != nil {
		return nil, err
	}
	cl, err := c.wantedClone(v)
	if err != nil {
		return nil, err
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if err := c.mayClone(cl); err != nil {
		return nil, err
	}
	if c.s.vms[cl.newID] != nil {
		return nil, die("unable to create VM %d: config file already exists", cl.newID)
	}
	if v.running && v.conf["tpmstate0"] != "" {
		return nil, die("cannot clone TPM state while VM is running")
	}
	return c.startTask("qmclone", strconv.Itoa(v.id), func(w worker) error { return w.clone(cl) })
}

func (c *call) wantedClone(v *vm) (*cloning, error) {
	cl := &cloning{source: v, node: v.node, target: v.node, newID: c.p.int("newid", 0), name: c.param("name"), pool: c.param("pool"),
		storage: c.param("storage"), format: c.param("format"), full: !v.template(), about: c.param("description")}
	if t := c.param("target"); t != "" {
		cl.target = t
	}
	cl.conf = v.conf
	if name := c.param("snapname"); name != "" {
		sn, err := v.snapshot(name)
		if err != nil {
			return nil, err
		}
		cl.conf, cl.snap = sn.conf, name
	}
	if c.p.has("full") {
		cl.full = c.p.bool("full")
	}
	if err := c.needPool(); err != nil {
		return nil, err
	}
	switch {
	case !cl.full && cl.storage != "":
		return nil, die("parameter 'storage' not allowed for linked clones")
	case !cl.full && cl.format != "":
		return nil, die("parameter 'format' not allowed for linked clones")
	case c.s.hosts[cl.target] == nil:
		return nil, die("no such cluster node '%s'", cl.target)
	case cl.target != v.node && !c.sharedDisks(cl):
		return nil, die("can't clone VM to node '%s' (VM uses local storage)", cl.target)
	}
	return cl, nil
}

// sharedDisks reports whether the disks of a clone can be made for another node.
func (c *call) sharedDisks(cl *cloning) bool {
	h := c.s.hosts[cl.node]
	for _, k := range drives(cl.source.conf) {
		st, _ := h.volume(c.s.props(k, cl.source.conf[k])["file"])
		if cl.full && cl.storage != "" {
			st = h.storages[cl.storage]
		}
		if st != nil && !st.Shared {
			return false
		}
	}
	return true
}

func (c *call) mayClone(cl *cloning) error {
	h := c.s.hosts[cl.node]
	for _, k := range slices.Sorted(maps.Keys(cl.conf)) {
		value := cl.conf[k]
		switch {
		case isDrive(k):
			d := c.s.props(k, value)
			st, vol := h.volume(d["file"])
			if st == nil || isCDROM(d) {
				continue
			}
			if !cl.full && (cl.snap != "" || st.volumes[vol] == nil || !linkable(st.volumes[vol])) && k != "tpmstate0" {
				of := map[bool]string{true: " a snapshot of"}[cl.snap != ""]
				return die("Linked clone feature is not supported for%s '%s' (%s)", of, d["file"], k)
			}
			name := st.Name
			if cl.storage != "" {
				name = cl.storage
			}
			if err := c.needSpace(name); err != nil {
				return err
			}
		case strings.HasPrefix(k, "net"):
			if err := c.s.mayBridge(c.who, k, value); err != nil {
				return err
			}
		case passedThrough.MatchString(k) && c.s.nine():
			if err := c.s.mayMap(c.who, k, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// clone is the work of qmclone. It locks the source for others that clone too
// when that is at rest, and against them while it runs (PVE/API2/Qemu.pm).
func (w worker) clone(cl *cloning) (err error) {
	src := cl.source
	unlockSource, err := w.lock(configLock(src.id), !src.running, cloneLockTimeout)
	if err != nil {
		return err
	}
	defer unlockSource()
	if w.s.vms[src.id] != src {
		return die("unable to find configuration file for VM %d on node '%s'", src.id, cl.node)
	}
	v, err := w.reserve(cl)
	if err != nil {
		return err
	}
	w.log("creating a clone of VM %d with ID %d", src.id, cl.newID)
	var made allocated
	defer func() {
		if err != nil {
			made.undo()
			delete(w.s.vms, cl.newID)
			delete(w.s.firewalls, "vm/"+strconv.Itoa(cl.newID))
		}
	}()
	w.s.cloneFirewall(src.id, cl.newID)
	conf, err := w.clonedConfig(cl, v, &made)
	if err != nil {
		return die("clone failed: %s", err)
	}
	if err := w.sleep(w.s.opts.Timing.LinkedClone); err != nil {
		return err
	}
	v.conf = conf
	v.changed()
	return nil
}

// reserve writes the clone's configuration, empty and locked. From then on it is
// that lock, not the file's, which keeps others away.
func (w worker) reserve(cl *cloning) (*vm, error) {
	unlock, err := w.lock(configLock(cl.newID), false, cloneLockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.s.vms[cl.newID] != nil {
		return nil, die("unable to create VM %d: config file already exists", cl.newID)
	}
	now := time.Now()
	v := &vm{id: cl.newID, node: cl.target, pool: cl.pool, conf: map[string]string{"lock": "clone"}, ctime: now, since: now}
	w.s.vms[cl.newID] = v
	return v, nil
}

func (w worker) clonedConfig(cl *cloning, v *vm, made *allocated) (map[string]string, error) {
	conf := maps.Clone(cl.conf)
	for _, k := range []string{"lock", "template", "parent", "snaptime", "vmstate"} {
		delete(conf, k)
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		switch {
		case unusedKey.MatchString(k):
			delete(conf, k)
		case strings.HasPrefix(k, "net"):
			conf[k] = w.s.normalNet(k, conf[k], true)
		case isDrive(k):
			value, err := w.cloneDrive(cl, v, k, conf[k], made)
			if err != nil {
				return nil, err
			}
			conf[k] = value
		}
	}
	if conf["vmgenid"] != "" {
		conf["vmgenid"] = w.s.uuid()
	}
	smbios := w.s.props("smbios1", conf["smbios1"])
	smbios["uuid"] = w.s.uuid()
	conf["smbios1"] = w.s.printProps("smbios1", smbios)
	conf["name"] = cl.name
	if cl.name == "" {
		conf["name"] = "Copy-of-VM-" + cl.source.conf["name"]
	}
	if cl.about != "" {
		conf["description"] = cl.about
	}
	return conf, nil
}

func (w worker) cloneDrive(cl *cloning, v *vm, key, value string, made *allocated) (string, error) {
	d := w.s.props(key, value)
	if isCDROM(d) && !isCloudInit(d["file"]) {
		return value, nil // the disc stays in the drive
	}
	st, source, err := w.s.hosts[cl.node].lookup(d["file"])
	if err != nil {
		return "", err
	}
	if cl.full || isCloudInit(d["file"]) || key == "tpmstate0" || !linkable(source) {
		return w.copyDrive(cl, v, key, d, st, source, made)
	}
	w.log("create linked clone of drive %s (%s)", key, d["file"])
	format := source.format
	if st.fileBased() {
		format = "qcow2"
	}
	name, base := st.newName(v.id, "vm", format), source.ownName()
	full := base + "/" + name
	if !st.fileBased() {
		full = base + "/" + path.Base(name)
	}
	w.log("clone %s: images, %s, %d to %s (base=../%s)", source.name, path.Base(name), v.id, path.Base(name), base)
	vol := &volume{name: full, content: "images", format: format, size: source.size, owner: v.id, base: source}
	if err := w.allocateIn(st, vol, w.s.opts.Timing.LinkedDisk, made); err != nil {
		return "", err
	}
	d["file"], d["size"] = st.Name+":"+full, formatSize(source.size)
	return w.s.printProps(key, d), nil
}

func (w worker) copyDrive(cl *cloning, v *vm, key string, d map[string]string, st *storage, source *volume, made *allocated) (string, error) {
	w.log("create full clone of drive %s (%s)", key, d["file"])
	if cl.storage != "" {
		st = w.s.hosts[cl.target].storages[cl.storage]
	} else if !st.Shared {
		st = w.s.hosts[cl.target].storages[st.Name]
	}
	format := source.format
	if cl.format != "" {
		format = cl.format
	}
	name := st.newName(v.id, "vm", format)
	if isCloudInit(d["file"]) {
		name = st.full(v.id, fmt.Sprintf("vm-%d-cloudinit", v.id), format)
	}
	if err := w.allocate(st, name, v.id, source.size, made); err != nil {
		return "", err
	}
	w.log("allocated target volume '%s:%s'", st.Name, name)
	if !isCloudInit(d["file"]) {
		if err := w.copyData(source.size); err != nil {
			return "", err
		}
	}
	if below := source.contents(); below != nil {
		st.volumes[name].disk = below.Clone()
	}
	d["file"], d["size"] = st.Name+":"+name, formatSize(source.size)
	return w.s.printProps(key, d), nil
}

func (c *call) makeTemplate() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	disk := c.param("disk")
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if len(v.snapshots) > 0 {
		return nil, die("unable to create template, because VM contains snapshots")
	}
	if v.template() && disk == "" {
		return nil, die("you can't convert a template to a template")
	}
	if v.running {
		return nil, die("you can't convert a VM to template if VM is running")
	}
	return c.startTask("qmtemplate", strconv.Itoa(v.id), func(w worker) error {
		unlock, err := w.lock(configLock(v.id), false, configLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		if v.running {
			return die("you can't convert a VM to template if VM is running")
		}
		return w.toTemplate(v, disk)
	})
}

// toTemplate renames the disks to bases, or only one, and marks the VM.
func (w worker) toTemplate(v *vm, disk string) error {
	h := w.s.hosts[v.node]
	for _, k := range drives(v.conf) {
		d := w.s.props(k, v.conf[k])
		if isCDROM(d) || disk != "" && k != disk || strings.HasPrefix(path.Base(d["file"]), "base-") {
			continue
		}
		st, vol, err := h.lookup(d["file"])
		if err != nil {
			return err
		}
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
			return err
		}
		delete(st.volumes, vol.name)
		dir, last := path.Split(vol.name)
		vol.name = dir + "base-" + strings.TrimPrefix(last, "vm-")
		st.volumes[vol.name] = vol
		d["file"] = st.Name + ":" + vol.name
		v.set(k, w.s.printProps(k, d))
	}
	v.set("template", "1")
	return nil
}
