package pvesim

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errSkip is what has to wait until the VM is off.
var errSkip = errors.New("skip")

// applyPending makes what is pending the configuration of a VM that is off
// (PVE/QemuServer.pm, vmconfig_apply_pending). What cannot be done stays pending,
// and is told in errs.
func (w worker) applyPending(who identity, v *vm, errs map[string]string) error {
	writes := false // a cloud-init drive
	tell := func(k string, err error) {
		errs[k] = "unable to apply pending change " + k + " : " + err.Error() + "\n"
		w.log("%s", strings.TrimSuffix(errs[k], "\n"))
	}
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		if v.pending[k] != "" {
			continue
		}
		if isDrive(k) && v.conf[k] != "" {
			if err := w.detach(who, v, k); err != nil {
				tell(k, err)
				continue
			}
		}
		v.settled(k, "")
	}
	v.dropUnchanged()
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		value := v.pending[k]
		if value == "" { // could not be deleted
			continue
		}
		if old := w.s.props(k, v.conf[k]); isDrive(k) && v.conf[k] != "" && old["file"] != w.s.props(k, value)["file"] {
			w.release(v, old)
		}
		v.settled(k, value)
		if cloudInitOption.MatchString(k) { // nobody notes what is not on the drive of a VM that is off
			v.cloudDrive = nil
		}
		writes = writes || isDrive(k) && isCloudInit(w.s.props(k, value)["file"])
	}
	v.dropUsed(w.s)
	if !writes {
		return nil
	}
	if err := w.checkSnippets(v); err != nil {
		return err
	}
	w.log("generating cloud-init ISO")
	v.cloudDrive = cloudOptions(v.conf)
	return nil
}

// settled makes a pending value, or with an empty one a deletion, that of now.
func (v *vm) settled(k, value string) {
	delete(v.pending, k)
	delete(v.forced, k)
	if value == "" {
		v.unset(k)
		return
	}
	v.set(k, value)
}

// detach takes a drive out of a configuration: its volume is kept as out of use, or
// by force erased.
func (w worker) detach(who identity, v *vm, k string) error {
	d := w.s.props(k, v.conf[k])
	if v.forced[k] && !isCDROM(d) {
		if err := w.s.needOnVM(who, v.id, "", "VM.Config.Disk"); err != nil {
			return err
		}
		_, err := w.deallocate(who, v, k, d["file"])
		return err
	}
	w.release(v, d)
	return nil
}

// free erases a disk that is out of use, and forgets it.
func (w worker) free(who identity, v *vm, key, volid string) error {
	gone, err := w.deallocate(who, v, key, volid)
	if err == nil && gone {
		v.unset(key)
	}
	return err
}

// deallocate erases a volume where it is the VM's own (PVE/QemuServer.pm,
// try_deallocate_drive).
func (w worker) deallocate(who identity, v *vm, key, volid string) (bool, error) {
	st, name := w.s.hosts[v.node].volume(volid)
	if st == nil || !v.owns(st, name) {
		return true, nil
	}
	if err := w.s.need(who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return false, err
	}
	if w.s.inUse(v, key, volid) {
		return false, die("unable to delete '%s' - volume is still in use (snapshot?)", volid)
	}
	unlock, err := w.lockStorage(st)
	if err != nil {
		return false, err
	}
	defer unlock()
	return true, w.erase(st, name)
}

// inUse reports whether a volume is used by another drive of the VM, or by a snapshot.
func (s *state) inUse(v *vm, key, volid string) bool {
	for k, value := range v.conf {
		if k != key && (isDrive(k) && s.props(k, value)["file"] == volid || k == "vmstate" && value == volid) {
			return true
		}
	}
	return v.keptBySnapshot(volid)
}

var ownerInName = regexp.MustCompile(`(?:vm|base|subvol)-(\d+)-`)

// owns tells whether a volume is the VM's by its name, whether there is one or not.
func (v *vm) owns(st *storage, name string) bool {
	if vol := st.volumes[name]; vol != nil {
		return vol.owner == v.id
	}
	m := ownerInName.FindStringSubmatch(name)
	return m != nil && m[1] == strconv.Itoa(v.id)
}

// release is what becomes of the volume that a drive had: that of cloud-init is
// erased, a disc stays where it is, and a disk of the VM's own is kept as unusedN.
func (w worker) release(v *vm, d map[string]string) {
	st, name := w.s.hosts[v.node].volume(d["file"])
	switch {
	case st == nil:
	case isCloudInit(d["file"]):
		_ = st.remove(name)
	case !isCDROM(d) && v.owns(st, name):
		v.keepUnused(d["file"])
	}
}

// fastPlug are options that change nothing in a running VM, or nothing before its
// cloud-init drive is recreated.
var fastPlug = regexp.MustCompile(`^(description|hookscript|lock|migrate_downtime|migrate_speed|name|onboot|protection|shares|startup|tags|` +
	`vmstatestorage|ciuser|cipassword|citype|ciupgrade|cicustom|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)

// hotplug makes what is pending take effect in a running VM as far as it goes
// (PVE/QemuServer.pm, vmconfig_hotplug_pending).
func (g *changing) hotplug(errs map[string]string) {
	v := g.v
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		if value := v.pending[k]; fastPlug.MatchString(k) && value != "" {
			v.settled(k, value)
		}
	}
	try := func(k, value string, do func() error) {
		switch err := do(); {
		case err == nil:
			v.settled(k, value)
		case !errors.Is(err, errSkip):
			errs[k] = "hotplug problem - " + err.Error() + "\n"
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		if v.pending[k] == "" && g.modified[k] {
			try(k, "", func() error { return g.unplug(k) })
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		if value := v.pending[k]; value != "" && g.modified[k] {
			try(k, value, func() error { return g.plug(k, value) })
		}
	}
	v.dropUsed(g.w.s)
}

// hotplugs tells whether a VM's option hotplug has a feature.
func (v *vm) hotplugs(feature string) bool {
	switch set := v.conf["hotplug"]; set {
	case "", "1":
		return feature == "network" || feature == "disk" || feature == "usb"
	default:
		return slices.Contains(splitList(set), feature)
	}
}

// plugsUSB tells whether USB devices come and go in a running VM.
func (v *vm) plugsUSB() bool {
	return v.hotplugs("usb") && slices.Contains([]string{"l26", "win8", "win10", "win11"}, v.conf["ostype"])
}

func skipUnless(ok bool) error {
	if ok {
		return nil
	}
	return errSkip
}

// unplugging is how long Proxmox waits for a guest to let a device go.
const unplugging = 5 * time.Second

// pull takes a PCI device away, which takes a guest that lets it go.
func (g *changing) pull(k string) error {
	if g.v.machine != nil {
		return nil
	}
	if err := g.w.sleep(unplugging); err != nil {
		return err
	}
	return die("error on hot-unplugging device '%s' - still busy in guest?", k)
}

// unplug takes an option out of a running VM.
func (g *changing) unplug(k string) error {
	v := g.v
	switch {
	case fastPlug.MatchString(k), k == "cpuunits", k == "cpulimit":
		return nil
	case k == "hotplug":
		return skipUnless(!v.hotplugs("cpu") && !v.hotplugs("memory"))
	case k == "tablet":
		return skipUnless(v.hotplugs("usb"))
	case usbKey.MatchString(k):
		return skipUnless(v.plugsUSB())
	case k == "vcpus":
		return skipUnless(v.hotplugs("cpu"))
	case k == "balloon":
		return skipUnless(v.conf[k] != "0")
	case k == "memory":
		return skipUnless(v.hotplugs("memory"))
	case netKey.MatchString(k):
		if !v.hotplugs("network") {
			return errSkip
		}
		return g.pull(k)
	case isDrive(k):
		if !v.hotplugs("disk") || !hotDrive.MatchString(k) {
			return errSkip
		}
		if strings.HasPrefix(k, "virtio") {
			if err := g.pull(k); err != nil {
				return err
			}
		}
		return g.w.detach(g.who, v, k)
	}
	return errSkip
}

var (
	usbKey   = regexp.MustCompile(`^usb\d+$`)
	hotDrive = regexp.MustCompile(`^(scsi|virtio)\d+$`)
)

// plug brings an option into a running VM.
func (g *changing) plug(k, value string) error {
	v := g.v
	switch {
	case k == "cpuunits", k == "cpulimit":
		return nil
	case k == "hotplug":
		features := value + " " + v.conf[k]
		return skipUnless(!strings.Contains(features, "cpu") && !strings.Contains(features, "memory"))
	case k == "tablet":
		return skipUnless(v.hotplugs("usb"))
	case usbKey.MatchString(k):
		return skipUnless(v.plugsUSB())
	case k == "vcpus":
		return skipUnless(v.hotplugs("cpu"))
	case k == "balloon":
		return skipUnless((v.conf[k] == "0") == (value == "0"))
	case k == "memory":
		return skipUnless(v.hotplugs("memory"))
	case netKey.MatchString(k):
		return g.plugNet(k, value)
	case isDrive(k):
		return g.plugDrive(k, value)
	case k == "agent":
		return skipUnless(v.conf[k] != "" && sameBut(g.w.s.props(k, v.conf[k]), g.w.s.props(k, value), "fstrim_cloned_disks"))
	}
	return errSkip
}

// sameBut compares property strings but for one key.
func sameBut(a, b map[string]string, key string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, key)
	delete(b, key)
	return maps.Equal(a, b)
}

func (g *changing) plugNet(k, value string) error {
	was, is := g.w.s.props(k, g.v.conf[k]), g.w.s.props(k, value)
	replaced := g.v.conf[k] != "" && (was["model"] != is["model"] || was["macaddr"] != is["macaddr"] || was["queues"] != is["queues"] ||
		was["mtu"] != is["mtu"] || was["bridge"] == "" || is["bridge"] == "")
	switch {
	case !g.v.hotplugs("network") && (replaced || g.v.conf[k] == ""):
		return errSkip
	case replaced:
		if err := g.pull(k); err != nil {
			return err
		}
	}
	if b := is["bridge"]; b != "" && !slices.Contains(g.w.s.hosts[g.v.node].Bridges, b) {
		return die("VM %d qmp command 'netdev_add' failed - network script /usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512", g.v.id)
	}
	return nil
}

func (g *changing) plugDrive(k, value string) error {
	v, hot := g.v, g.v.hotplugs("disk")
	if k == "efidisk0" || k == "tpmstate0" {
		return errSkip
	}
	is := g.w.s.props(k, value)
	if v.conf[k] == "" {
		return skipUnless(hot && hotDrive.MatchString(k))
	}
	was := g.w.s.props(k, v.conf[k])
	switch {
	case isCDROM(was) != isCDROM(is):
		return die("unable to change media type")
	case isCDROM(was):
		if is["file"] == "none" && isCloudInit(was["file"]) {
			g.w.release(v, was)
		}
		return nil
	case was["file"] == is["file"]:
		return skipUnless(g.w.s.adjusts(was, is))
	case !hot:
		return errSkip
	case strings.HasPrefix(k, "virtio"):
		if err := g.pull(k); err != nil {
			return err
		}
	}
	g.w.release(v, was)
	return skipUnless(hotDrive.MatchString(k))
}

// adjusts tells whether only what can be changed of a disk in use is changed.
func (s *state) adjusts(was, is map[string]string) bool {
	for _, k := range []string{"aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro"} {
		if was[k] != is[k] {
			return false
		}
	}
	return true
}
