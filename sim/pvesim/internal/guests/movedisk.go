package guests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// moveDisk brings a disk to another storage or format, or to another VM.
func moveDisk(c *world.Call) (any, error) {
	target, store := c.Params.Has("target-vmid"), c.Params.Has("storage")
	bad := func(text string) error {
		return answer.Fail(400, "Parameter verification failed.").WithParam("target-vmid", text).WithParam("storage", text)
	}
	switch {
	case target && store:
		return nil, bad("either set 'storage' or 'target-vmid', but not both")
	case target:
		return reassignDisk(c)
	case !store:
		return nil, bad("both 'storage' and 'target-vmid' missing, either needs to be set")
	}
	if err := access.Need(c.State, c.Who, "/storage/"+c.Param("storage"), "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := checkMove(c); err != nil {
		return nil, err
	}
	return c.StartTask("qmmove", strconv.Itoa(c.VMID()), func(w world.Worker) error {
		unlock, err := w.Lock(world.ConfigLock(c.VMID()), false, world.ConfigLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		v, err := checkMove(c)
		if err != nil {
			return err
		}
		if err := relocateDisk(w, v, c.Param("disk"), c.Param("storage"), c.Param("format"), c.Params.Bool("delete")); err != nil {
			return answer.Die("storage migration failed: %s", err)
		}
		if v.Template() {
			return toTemplate(w, v, c.Param("disk"))
		}
		return nil
	})
}

// checkMove is looked at before the task, and in it once more.
func checkMove(c *world.Call) (*world.VM, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	key := c.Param("disk")
	d := c.State.Props(key, v.Conf[key])
	from, vol := c.Host().Volume(d["file"])
	to := c.Host().Stores[c.Param("storage")]
	digest := c.Param("digest")
	switch {
	case v.CheckLock() != nil:
		return nil, v.CheckLock()
	case digest != "" && digest != v.Sum():
		return nil, answer.Die("detected modified configuration - file changed by other user? Try again.")
	case v.Conf[key] == "":
		return nil, answer.Die("disk '%s' does not exist", key)
	case world.IsCDROM(d) && !world.IsCloudInit(d["file"]):
		return nil, answer.Die("you can't move a cdrom")
	case to == nil:
		return nil, answer.Die("storage '%s' does not exist", c.Param("storage"))
	case from == to && (c.Param("format") == "" || from.Volumes[vol] != nil && from.Volumes[vol].Format == c.Param("format")):
		return nil, answer.Die("you can't move to the same storage with same format")
	case !slices.Contains(to.Content, "images"):
		return nil, answer.BadParam("storage", "storage '"+to.Name+"' does not support vm images")
	case c.Params.Bool("delete") && config.KeptBySnapshot(v, d["file"]):
		return nil, answer.Die("you can't move a disk with snapshots and delete the source")
	}
	return v, nil
}

func relocateDisk(w world.Worker, v *world.VM, key, store, format string, remove bool) error {
	h := w.State.Hosts[v.Node]
	d := w.State.Props(key, v.Conf[key])
	old := d["file"]
	from, source, err := h.Lookup(old)
	if err != nil {
		return err
	}
	w.Log("copying volume '%s' from current storage '%s' to target storage '%s'", old, from.Name, store)
	to := h.Stores[store]
	format = to.FormatFor(cmp.Or(format, source.Format))
	w.Log("create full clone of drive %s (%s)", key, old)
	name, err := copyVolume(w, to, v.ID, source, format, nil)
	if err != nil {
		return err
	}
	d["file"] = store + ":" + name
	if world.IsCloudInit(old) {
		d["size"] = schema.FormatSize(source.Size)
	}
	v.Set(key, w.State.PrintProps(key, d))
	if world.IsCloudInit(old) && !remove { // Proxmox keeps none of these, and stumbles over it
		w.Log("found unused cloudinit disk '%s', removing it", old)
		w.Log("Use of uninitialized value $unused_key in concatenation (.) or string at /usr/share/perl5/PVE/API2/Qemu.pm line 4960.")
		w.Log("adding source volume '%s' as '' to config", old)
		return w.Erase(from, source.Name)
	}
	if !remove {
		w.Log("adding source volume '%s' as '%s' to config", old, config.KeepUnused(v, old))
		return nil
	}
	w.Log("removing source volume '%s' after successful copy", old)
	unlock, err := w.LockStorage(from)
	if err != nil {
		w.Log("%s", err)
		return nil
	}
	defer unlock()
	if err := w.Erase(from, source.Name); err != nil {
		w.Log("%s", err)
	}
	return nil
}

// copyVolume makes a disk like another on a storage and returns its name.
func copyVolume(
	w world.Worker, to *world.Storage, owner int, source *world.Volume, format string, made *storages.Allocations,
) (string, error) {
	name := to.NewName(owner, "vm", format)
	if world.IsCloudInit(source.Name) {
		name = to.Full(owner, fmt.Sprintf("vm-%d-cloudinit", owner), format)
	}
	if err := storages.Allocate(w, to, name, owner, source.Size, made); err != nil {
		return "", err
	}
	w.Log("allocated target volume '%s:%s'", to.Name, name)
	if err := storages.CopyData(w, to, source.Size); err != nil {
		_ = to.Remove(name)
		return "", err
	}
	if below := source.Contents(); below != nil {
		to.Volumes[name].Disk = below.Clone()
	}
	return name, nil
}

// reassignDisk gives a disk of one VM to another.
func reassignDisk(c *world.Call) (any, error) {
	other := c.Params.Int("target-vmid", 0)
	if other == c.VMID() {
		return nil, answer.BadParam("target-vmid", "must be different than source VMID to reassign disk")
	}
	if err := access.Need(c.State, c.Who, "/vms/"+strconv.Itoa(other), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	key, as := c.Param("disk"), c.Param("target-disk")
	if as == "" {
		as = key
	}
	v, to, err := checkReassign(c, key, as, other)
	if err != nil {
		return nil, err
	}
	store, _, _ := strings.Cut(c.State.Props("scsi0", v.Conf[key])["file"], ":")
	if err := access.Need(c.State, c.Who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	return c.StartTask("qmmove", strconv.Itoa(v.ID)+"-"+key+">"+strconv.Itoa(other)+"-"+as, func(w world.Worker) error {
		return config.WithLock(w, v, func() error {
			return config.WithLock(w, to, func() error {
				if _, _, err := checkReassign(c, key, as, other); err != nil {
					return err
				}
				w.Log("reassign disk '%s' from VM '%d' as '%s' to VM '%d'", key, v.ID, as, other)
				return reassign(w, v, key, to, as)
			})
		})
	})
}

func checkReassign(c *world.Call, key, as string, other int) (v, to *world.VM, err error) {
	v, to = c.State.VMs[c.VMID()], c.State.VMs[other]
	switch {
	case v == nil:
		return nil, nil, answer.Die("could not find VM %d", c.VMID())
	case to == nil:
		return nil, nil, answer.Die("could not find target VM %d", other)
	case v.Node != to.Node:
		return nil, nil, answer.Die("Both VMs need to be on the same node (%s != %s)", v.Node, to.Node)
	case v.CheckLock() != nil:
		return nil, nil, v.CheckLock()
	case to.CheckLock() != nil:
		return nil, nil, to.CheckLock()
	case v.Template() || to.Template():
		return nil, nil, answer.Die("Can't move disks from or to template VMs")
	case c.Params.Has("digest") && c.Param("digest") != v.Sum():
		return nil, nil, answer.Die("VM %d: detected modified configuration - file changed by other user? Try again.", v.ID)
	case c.Params.Has("target-digest") && c.Param("target-digest") != to.Sum():
		return nil, nil, answer.Die("VM %d: detected modified configuration - file changed by other user? Try again.", to.ID)
	case v.Conf[key] == "":
		return nil, nil, answer.Die("Disk '%s' for VM '%d' does not exist", key, v.ID)
	case to.Conf[as] != "":
		return nil, nil, answer.Die("Target disk key '%s' is already in use for VM '%d'", as, other)
	case world.IsCDROM(c.State.Props(key, v.Conf[key])):
		return nil, nil, answer.Die("CD drive contents can't be moved to another VM")
	case config.KeptBySnapshot(v, c.State.Props(key, v.Conf[key])["file"]):
		return nil, nil, answer.Die("Can't move disk used by a snapshot to another VM")
	case v.Running && !world.UnusedKey.MatchString(key):
		return nil, nil, answer.Die("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return v, to, nil
}

func reassign(w world.Worker, v *world.VM, key string, to *world.VM, as string) error {
	d := w.State.Props(key, v.Conf[key])
	if world.UnusedKey.MatchString(key) {
		d = map[string]string{"file": v.Conf[key]}
	}
	st, vol, err := w.State.Hosts[v.Node].Lookup(d["file"])
	if err != nil {
		return err
	}
	name := st.NewName(to.ID, "vm", vol.Format)
	delete(st.Volumes, vol.Name)
	vol.Name, vol.Owner = name, to.ID
	st.Volumes[name] = vol
	d["file"] = st.Name + ":" + name
	if _, order, ok := strings.Cut(v.Conf["boot"], "order="); ok && slices.Contains(schema.SplitList(order), key) {
		w.Log("removing disk '%s' from boot order config", key)
		v.Set("boot", config.PrintBootOrder(slices.DeleteFunc(schema.SplitList(order), func(k string) bool { return k == key })))
	}
	w.Log("removing disk '%s' from VM '%d' config", key, v.ID)
	v.Unset(key)
	if world.UnusedKey.MatchString(as) {
		to.Set(as, d["file"])
		return nil
	}
	told := maps.Clone(d)
	d["size"] = schema.FormatSize(vol.Size)
	if !world.UnusedKey.MatchString(key) { // whose size is found out later
		told = d
	}
	keys := maps.Keys(d)
	known := w.State.ConfigKeys()[as].Format.Keys
	for _, k := range slices.Collect(keys) {
		if known[k] == nil {
			delete(d, k)
		}
	}
	w.Log("update VM %d: -%s %s", to.ID, as, w.State.PrintProps(as, told))
	to.Set(as, w.State.PrintProps(as, d))
	return nil
}
