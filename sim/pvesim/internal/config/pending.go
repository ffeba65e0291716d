package config

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// errSkip is what has to wait until the VM is off.
var errSkip = errors.New("skip")

// ApplyPending makes what is pending the configuration of a VM that is off
// (PVE/QemuServer.pm, vmconfig_apply_pending). What cannot be done stays pending,
// and is told in errs.
func ApplyPending(w world.Worker, who world.Identity, v *world.VM, errs map[string]string) error {
	writes := false // a cloud-init drive
	tell := func(k string, err error) {
		errs[k] = "unable to apply pending change " + k + " : " + err.Error() + "\n"
		w.Log("%s", strings.TrimSuffix(errs[k], "\n"))
	}
	for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
		if v.Pending[k] != "" {
			continue
		}
		if world.IsDrive(k) && v.Conf[k] != "" {
			if err := detach(w, who, v, k); err != nil {
				tell(k, err)
				continue
			}
		}
		ApplyValue(v, k, "")
	}
	dropUnchanged(v)
	for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
		value := v.Pending[k]
		if value == "" { // could not be deleted
			continue
		}
		if old := w.State.Props(k, v.Conf[k]); world.IsDrive(k) && v.Conf[k] != "" && old["file"] != w.State.Props(k, value)["file"] {
			letGo(w, v, old)
		}
		ApplyValue(v, k, value)
		if cloudInitOption.MatchString(k) { // nobody notes what is not on the drive of a VM that is off
			v.CloudDrive = nil
		}
		writes = writes || world.IsDrive(k) && world.IsCloudInit(w.State.Props(k, value)["file"])
	}
	dropUsed(v, w.State)
	if !writes {
		return nil
	}
	if err := CheckSnippets(w, v); err != nil {
		return err
	}
	w.Log("generating cloud-init ISO")
	v.CloudDrive = CloudOptions(v.Conf)
	return nil
}

// ApplyValue makes a pending value, or with an empty one a deletion, that of now.
func ApplyValue(v *world.VM, k, value string) {
	delete(v.Pending, k)
	delete(v.Forced, k)
	if value == "" {
		v.Unset(k)
		return
	}
	v.Set(k, value)
}

// detach takes a drive out of a configuration: its volume is kept as out of use, or
// by force erased.
func detach(w world.Worker, who world.Identity, v *world.VM, k string) error {
	d := w.State.Props(k, v.Conf[k])
	if v.Forced[k] && !world.IsCDROM(d) {
		if err := NeedOnVM(w.State, who, v.ID, "", "VM.Config.Disk"); err != nil {
			return err
		}
		_, err := deallocate(w, who, v, k, d["file"])
		return err
	}
	letGo(w, v, d)
	return nil
}

// free erases a disk that is out of use, and forgets it.
func free(w world.Worker, who world.Identity, v *world.VM, key, volid string) error {
	gone, err := deallocate(w, who, v, key, volid)
	if err == nil && gone {
		v.Unset(key)
	}
	return err
}

// deallocate erases a volume where it is the VM's own (PVE/QemuServer.pm,
// try_deallocate_drive).
func deallocate(w world.Worker, who world.Identity, v *world.VM, key, volid string) (bool, error) {
	st, name := w.State.Hosts[v.Node].Volume(volid)
	if st == nil || !Owns(v, st, name) {
		return true, nil
	}
	if err := access.Need(w.State, who, "/storage/"+st.Name, "Datastore.AllocateSpace"); err != nil {
		return false, err
	}
	if inUse(w.State, v, key, volid) {
		return false, answer.Die("unable to delete '%s' - volume is still in use (snapshot?)", volid)
	}
	unlock, err := w.LockStorage(st)
	if err != nil {
		return false, err
	}
	defer unlock()
	return true, w.Erase(st, name)
}

// inUse reports whether a volume is used by another drive of the VM, or by a snapshot.
func inUse(s *world.State, v *world.VM, key, volid string) bool {
	for k, value := range v.Conf {
		if k != key && (world.IsDrive(k) && s.Props(k, value)["file"] == volid || k == "vmstate" && value == volid) {
			return true
		}
	}
	return KeptBySnapshot(v, volid)
}

var ownerInName = regexp.MustCompile(`(?:vm|base|subvol)-(\d+)-`)

// Owns tells whether a volume is the VM's by its name, whether there is one or not.
func Owns(v *world.VM, st *world.Storage, name string) bool {
	if vol := st.Volumes[name]; vol != nil {
		return vol.Owner == v.ID
	}
	m := ownerInName.FindStringSubmatch(name)
	return m != nil && m[1] == strconv.Itoa(v.ID)
}

// letGo handles the volume that a drive had: that of cloud-init is
// erased, a disc stays where it is, and a disk of the VM's own is kept as unusedN.
func letGo(w world.Worker, v *world.VM, d map[string]string) {
	st, name := w.State.Hosts[v.Node].Volume(d["file"])
	switch {
	case st == nil:
	case world.IsCloudInit(d["file"]):
		_ = st.Remove(name)
	case !world.IsCDROM(d) && Owns(v, st, name):
		KeepUnused(v, d["file"])
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
	for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
		if value := v.Pending[k]; fastPlug.MatchString(k) && value != "" {
			ApplyValue(v, k, value)
		}
	}
	try := func(k, value string, do func() error) {
		switch err := do(); {
		case err == nil:
			ApplyValue(v, k, value)
		case !errors.Is(err, errSkip):
			errs[k] = "hotplug problem - " + err.Error() + "\n"
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
		if v.Pending[k] == "" && g.modified[k] {
			try(k, "", func() error { return g.unplug(k) })
		}
	}
	for _, k := range slices.Sorted(maps.Keys(v.Pending)) {
		if value := v.Pending[k]; value != "" && g.modified[k] {
			try(k, value, func() error { return g.plug(k, value) })
		}
	}
	dropUsed(v, g.w.State)
}

// Hotplugs tells whether a VM's option hotplug has a feature.
func Hotplugs(v *world.VM, feature string) bool {
	switch set := v.Conf["hotplug"]; set {
	case "", "1":
		return feature == "network" || feature == "disk" || feature == "usb"
	default:
		return slices.Contains(schema.SplitList(set), feature)
	}
}

// plugsUSB tells whether USB devices come and go in a running VM.
func plugsUSB(v *world.VM) bool {
	return Hotplugs(v, "usb") && slices.Contains([]string{"l26", "win8", "win10", "win11"}, v.Conf["ostype"])
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
	if g.v.Machine != nil {
		return nil
	}
	if err := g.w.Sleep(unplugging); err != nil {
		return err
	}
	return answer.Die("error on hot-unplugging device '%s' - still busy in guest?", k)
}

// unplug takes an option out of a running VM.
func (g *changing) unplug(k string) error {
	v := g.v
	switch {
	case fastPlug.MatchString(k), k == "cpuunits", k == "cpulimit":
		return nil
	case k == "hotplug":
		return skipUnless(!Hotplugs(v, "cpu") && !Hotplugs(v, "memory"))
	case k == "tablet":
		return skipUnless(Hotplugs(v, "usb"))
	case usbKey.MatchString(k):
		return skipUnless(plugsUSB(v))
	case k == "vcpus":
		return skipUnless(Hotplugs(v, "cpu"))
	case k == "balloon":
		return skipUnless(v.Conf[k] != "0")
	case k == "memory":
		return skipUnless(Hotplugs(v, "memory"))
	case world.NetKey.MatchString(k):
		if !Hotplugs(v, "network") {
			return errSkip
		}
		return g.pull(k)
	case world.IsDrive(k):
		if !Hotplugs(v, "disk") || !hotDrive.MatchString(k) {
			return errSkip
		}
		if strings.HasPrefix(k, "virtio") {
			if err := g.pull(k); err != nil {
				return err
			}
		}
		return detach(g.w, g.who, v, k)
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
		features := value + " " + v.Conf[k]
		return skipUnless(!strings.Contains(features, "cpu") && !strings.Contains(features, "memory"))
	case k == "tablet":
		return skipUnless(Hotplugs(v, "usb"))
	case usbKey.MatchString(k):
		if !plugsUSB(v) {
			return errSkip
		}
		return pci.PlugUSB(g.w.State, v, k, value)
	case k == "vcpus":
		return skipUnless(Hotplugs(v, "cpu"))
	case k == "balloon":
		return skipUnless((v.Conf[k] == "0") == (value == "0"))
	case k == "memory":
		return skipUnless(Hotplugs(v, "memory"))
	case world.NetKey.MatchString(k):
		return g.plugNet(k, value)
	case world.IsDrive(k):
		return g.plugDrive(k, value)
	case k == "agent":
		return skipUnless(v.Conf[k] != "" && sameBut(g.w.State.Props(k, v.Conf[k]), g.w.State.Props(k, value), "fstrim_cloned_disks"))
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
	was, is := g.w.State.Props(k, g.v.Conf[k]), g.w.State.Props(k, value)
	replaced := g.v.Conf[k] != "" && (was["model"] != is["model"] || was["macaddr"] != is["macaddr"] || was["queues"] != is["queues"] ||
		was["mtu"] != is["mtu"] || was["bridge"] == "" || is["bridge"] == "")
	switch {
	case !Hotplugs(g.v, "network") && (replaced || g.v.Conf[k] == ""):
		return errSkip
	case replaced:
		if err := g.pull(k); err != nil {
			return err
		}
	}
	if b := is["bridge"]; b != "" && nodes.Plug(g.w.State, g.w.State.Hosts[g.v.Node], b, is["tag"]) != nil {
		return answer.Die("VM %d qmp command 'netdev_add' failed - network script /usr/libexec/qemu-server/pve-bridge-hotplug failed with status 512", g.v.ID)
	}
	return nil
}

func (g *changing) plugDrive(k, value string) error {
	v, hot := g.v, Hotplugs(g.v, "disk")
	if k == "efidisk0" || k == "tpmstate0" {
		return errSkip
	}
	is := g.w.State.Props(k, value)
	if v.Conf[k] == "" {
		return skipUnless(hot && hotDrive.MatchString(k))
	}
	was := g.w.State.Props(k, v.Conf[k])
	switch {
	case world.IsCDROM(was) != world.IsCDROM(is):
		return answer.Die("unable to change media type")
	case world.IsCDROM(was):
		if is["file"] == "none" && world.IsCloudInit(was["file"]) {
			letGo(g.w, v, was)
		}
		return nil
	case was["file"] == is["file"]:
		return skipUnless(adjusts(g.w.State, was, is))
	case !hot:
		return errSkip
	case strings.HasPrefix(k, "virtio"):
		if err := g.pull(k); err != nil {
			return err
		}
	}
	letGo(g.w, v, was)
	return skipUnless(hotDrive.MatchString(k))
}

// adjusts tells whether only what can be changed of a disk in use is changed.
func adjusts(s *world.State, was, is map[string]string) bool {
	for _, k := range []string{"aio", "discard", "iothread", "queues", "product", "cache", "ssd", "vendor", "ro"} {
		if was[k] != is[k] {
			return false
		}
	}
	return true
}
