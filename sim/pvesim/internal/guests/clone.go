package guests

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/firewall"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// cloning is what a call to clone asks for.
type cloning struct {
	source  *world.VM
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

func cloneVM(c *world.Call) (any, error) {
	v, err := c.State.Find(c.VMID(), c.Param("node"))
	if err != nil {
		return nil, err
	}
	cl, err := wantedClone(c, v)
	if err != nil {
		return nil, err
	}
	if err := mayClone(c, cl); err != nil {
		return nil, err
	}
	if c.State.VMs[cl.newID] != nil {
		return nil, answer.Die("unable to create VM %d: config file already exists", cl.newID)
	}
	if v.Running && v.Conf["tpmstate0"] != "" {
		return nil, answer.Die("cannot clone TPM state while VM is running")
	}
	if err := canClone(c.State, cl); err != nil {
		return nil, err
	}
	return c.StartTask("qmclone", strconv.Itoa(v.ID), func(w world.Worker) error { return clone(w, cl) })
}

func wantedClone(c *world.Call, v *world.VM) (*cloning, error) {
	cl := &cloning{source: v, node: v.Node, target: v.Node, newID: c.Params.Int("newid", 0), name: c.Param("name"), pool: c.Param("pool"),
		storage: c.Param("storage"), format: c.Param("format"), full: !v.Template(), about: c.Param("description")}
	if t := c.Param("target"); t != "" {
		cl.target = t
	}
	cl.conf = v.Conf
	if name := c.Param("snapname"); name != "" {
		sn, err := v.Snapshot(name)
		if err != nil {
			return nil, err
		}
		cl.conf, cl.snap = sn.Conf, name
	}
	if c.Params.Has("full") {
		cl.full = c.Params.Bool("full")
	}
	if err := access.NeedPool(c); err != nil {
		return nil, err
	}
	if c.State.Hosts[cl.target] == nil {
		return nil, answer.Die("no such cluster node '%s'", cl.target)
	}
	if err := toStorage(c, cl); err != nil {
		return nil, err
	}
	if err := v.CheckLock(); err != nil {
		return nil, err
	}
	switch {
	case !cl.full && cl.storage != "":
		return nil, answer.Die("parameter 'storage' not allowed for linked clones")
	case !cl.full && cl.format != "":
		return nil, answer.Die("parameter 'format' not allowed for linked clones")
	}
	return cl, nil
}

// toStorage checks the storage that full copies are to be on: the copies are made on the
// source's node, so it must be there, and shared if the clone is another node's.
func toStorage(c *world.Call, cl *cloning) error {
	if cl.storage == "" {
		return nil
	}
	all, _ := c.State.StoragesByName()
	st := all[cl.storage]
	if st == nil {
		return answer.Die("storage '%s' does not exist", cl.storage)
	}
	if err := checkEnabled(c.State.Hosts[cl.node], st); err != nil {
		return err
	}
	switch {
	case !slices.Contains(st.Content, "images"):
		return answer.BadParam("storage", fmt.Sprintf("storage '%s' does not support vm images", st.Name))
	case cl.target == cl.node:
		return nil
	}
	if err := checkEnabled(c.State.Hosts[cl.target], st); err != nil {
		return err
	}
	if !st.Shared {
		return answer.Die("can't clone to non-shared storage '%s'", st.Name)
	}
	return nil
}

// checkEnabled refuses a storage that is switched off, or is not for a node (storage_check_enabled).
func checkEnabled(h *world.Host, st *world.Storage) error {
	switch {
	case st.Disabled:
		return answer.Die("storage '%s' is disabled", st.Name)
	case h.Stores[st.Name] == nil:
		return answer.Die("storage '%s' is not available on node '%s'", st.Name, h.Name)
	}
	return nil
}

// sharedDisks reports whether all that a machine has in its drives is on shared storages,
// discs too: only then can a clone be another node's (check_storage_access_clone).
func sharedDisks(s *world.State, cl *cloning) bool {
	h := s.Hosts[cl.node]
	return !slices.ContainsFunc(world.Drives(cl.conf), func(k string) bool {
		st, _ := h.Volume(s.Props(k, cl.conf[k])["file"])
		return st != nil && !st.Shared
	})
}

func mayClone(c *world.Call, cl *cloning) error {
	h := c.State.Hosts[cl.node]
	for _, k := range slices.Sorted(maps.Keys(cl.conf)) {
		value := cl.conf[k]
		switch {
		case world.IsDrive(k):
			d := c.State.Props(k, value)
			st, _ := h.Volume(d["file"])
			if st == nil || world.IsCDROM(d) {
				continue
			}
			name := st.Name
			if cl.storage != "" {
				name = cl.storage
			}
			if err := config.NeedSpace(c, name); err != nil {
				return err
			}
		case strings.HasPrefix(k, "net"):
			if err := config.MayBridge(c.State, c.Who, k, value); err != nil {
				return err
			}
		case config.PassedThrough.MatchString(k) && c.State.IsNine():
			if err := config.MayMap(c.State, c.Who, k, value); err != nil {
				return err
			}
		}
	}
	if cl.target != cl.node && !sharedDisks(c.State, cl) {
		return answer.Die("can't clone VM to node '%s' (VM uses local storage)", cl.target)
	}
	return nil
}

// canClone refuses drives that cannot be copied, or not linked, by the features of their
// storages.
func canClone(s *world.State, cl *cloning) error {
	h := s.Hosts[cl.node]
	for _, k := range world.Drives(cl.conf) {
		d := s.Props(k, cl.conf[k])
		st, vol := h.Volume(d["file"])
		if st == nil || world.IsCDROM(d) && !world.IsCloudInit(d["file"]) {
			continue
		}
		way, feature := "Linked", "clone"
		if cl.copies(k, d) {
			way, feature = "Full", "copy"
		}
		if !st.Has(feature, vol, cl.snap != "") {
			of := map[bool]string{true: " a snapshot of"}[cl.snap != ""]
			return answer.Die("%s clone feature is not supported for%s '%s' (%s)", way, of, d["file"], k)
		}
	}
	return nil
}

// copies reports whether a drive is copied whole.
func (cl *cloning) copies(key string, d map[string]string) bool {
	return cl.full || world.IsCloudInit(d["file"]) || key == "tpmstate0"
}

// clone is the work of qmclone. It locks the source for others that clone too
// when that is at rest, and against them while it runs (PVE/API2/Qemu.pm).
func clone(w world.Worker, cl *cloning) (err error) {
	src := cl.source
	unlockSource, err := w.Lock(world.ConfigLock(src.ID), !src.Running, world.CloneLockTimeout)
	if err != nil {
		return err
	}
	defer unlockSource()
	if w.State.VMs[src.ID] != src {
		return answer.Die("unable to find configuration file for VM %d on node '%s'", src.ID, cl.node)
	}
	v, err := reserve(w, cl)
	if err != nil {
		return err
	}
	w.Log("creating a clone of VM %d with ID %d", src.ID, cl.newID)
	var made storages.Allocations
	defer func() {
		if err != nil {
			made.Undo()
			delete(w.State.VMs, cl.newID)
			delete(w.State.Firewalls, "vm/"+strconv.Itoa(cl.newID))
		}
	}()
	firewall.Clone(w.State, src.ID, cl.newID)
	conf, err := clonedConfig(w, cl, v, &made)
	if err != nil {
		return answer.Die("clone failed: %s", err)
	}
	if err := w.Sleep(w.State.Options.Timing.LinkedClone); err != nil {
		return err
	}
	v.Conf, v.Node = conf, cl.target
	v.Invalidate()
	w.State.Lease(v)
	return nil
}

// reserve writes the clone's configuration, empty and locked, on the source's node: it moves
// to another when it is complete. From then on it is that lock, not the file's, which keeps
// others away.
func reserve(w world.Worker, cl *cloning) (*world.VM, error) {
	unlock, err := w.Lock(world.ConfigLock(cl.newID), false, world.CloneLockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if w.State.VMs[cl.newID] != nil {
		return nil, answer.Die("unable to create VM %d: config file already exists", cl.newID)
	}
	now := time.Now()
	v := &world.VM{ID: cl.newID, Node: cl.node, Pool: cl.pool, Conf: map[string]string{"lock": "clone"}, Created: now, Since: now}
	w.State.VMs[cl.newID] = v
	return v, nil
}

// clonedConfig makes the drives, one after the other, and writes the configuration after each.
func clonedConfig(w world.Worker, cl *cloning, v *world.VM, made *storages.Allocations) (map[string]string, error) {
	conf, drives := maps.Clone(cl.conf), []string{}
	for _, k := range []string{"lock", "template", "parent", "snaptime", "vmstate"} {
		delete(conf, k)
	}
	for _, k := range slices.Sorted(maps.Keys(conf)) {
		switch {
		case world.UnusedKey.MatchString(k):
			delete(conf, k)
		case strings.HasPrefix(k, "net"):
			conf[k] = config.NormalNet(w.State, k, conf[k], true)
		case world.IsDrive(k):
			if d := w.State.Props(k, conf[k]); !world.IsCDROM(d) || world.IsCloudInit(d["file"]) { // another disc stays in the drive
				drives = append(drives, k)
				delete(conf, k)
			}
		}
	}
	if conf["vmgenid"] != "" {
		conf["vmgenid"] = w.State.UUID()
	}
	smbios := w.State.Props("smbios1", conf["smbios1"])
	smbios["uuid"] = w.State.UUID()
	conf["smbios1"] = w.State.PrintProps("smbios1", smbios)
	conf["name"] = cl.name
	if cl.name == "" {
		conf["name"] = "Copy-of-VM-" + cl.source.Conf["name"]
	}
	if cl.about != "" {
		conf["description"] = cl.about
	}
	for _, k := range drives {
		value, err := cloneDrive(w, cl, v, k, cl.conf[k], made)
		if err != nil {
			return nil, err
		}
		conf[k] = value
		v.Conf = maps.Clone(conf)
		v.Set("lock", "clone")
	}
	return conf, nil
}

func cloneDrive(w world.Worker, cl *cloning, v *world.VM, key, value string, made *storages.Allocations) (string, error) {
	d := w.State.Props(key, value)
	st, source, err := w.State.Hosts[cl.node].Lookup(d["file"])
	if err != nil {
		return "", err
	}
	if cl.copies(key, d) {
		return copyDrive(w, cl, v, key, d, st, source, made)
	}
	w.Log("create linked clone of drive %s (%s)", key, d["file"])
	format := source.Format
	if st.FileBased() && !st.Apart(format) {
		format = "qcow2"
	}
	name, base := st.NewName(v.ID, "vm", format), source.OwnName()
	vol := &world.Volume{Name: name, Content: "images", Format: format, Size: source.Size, Owner: v.ID}
	switch {
	case st.Apart(source.Format):
		vol.Thin = true
		if below := source.Contents(); below != nil {
			vol.Disk = below.Clone()
		}
	case st.FileBased():
		vol.Name, vol.Base = base+"/"+name, source
	default:
		vol.Name, vol.Base = base+"/"+path.Base(name), source
	}
	if !vol.Thin {
		w.Log("clone %s: images, %s, %d to %s (base=../%s)", source.Name, path.Base(name), v.ID, path.Base(name), base)
	}
	if err := storages.AllocateIn(w, st, vol, w.State.Options.Timing.LinkedDisk, made); err != nil {
		return "", err
	}
	d["file"], d["size"] = st.Name+":"+vol.Name, schema.FormatSize(source.Size)
	return w.State.PrintProps(key, d), nil
}

func copyDrive(w world.Worker, cl *cloning, v *world.VM, key string, d map[string]string, st *world.Storage, source *world.Volume, made *storages.Allocations) (string, error) {
	w.Log("create full clone of drive %s (%s)", key, d["file"])
	if cl.storage != "" {
		st = w.State.Hosts[cl.node].Stores[cl.storage]
	}
	format := st.FormatFor(cmp.Or(cl.format, source.Format))
	if cl.format != "" && cl.format != format {
		w.Log("format '%s' is not supported by the target storage '%s' - using '%s' instead", cl.format, st.Name, format)
	}
	name := st.NewName(v.ID, "vm", format)
	if world.IsCloudInit(d["file"]) {
		name = st.Full(v.ID, fmt.Sprintf("vm-%d-cloudinit", v.ID), format)
	}
	if err := storages.Allocate(w, st, name, v.ID, source.Size, made); err != nil {
		return "", err
	}
	w.Log("allocated target volume '%s:%s'", st.Name, name)
	if !world.IsCloudInit(d["file"]) {
		if err := storages.CopyData(w, st, source.Size); err != nil {
			return "", err
		}
	}
	if below := source.Contents(); below != nil {
		st.Volumes[name].Disk = below.Clone()
	}
	d["file"], d["size"] = st.Name+":"+name, schema.FormatSize(source.Size)
	return w.State.PrintProps(key, d), nil
}

func makeTemplate(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	disk := c.Param("disk")
	if err := v.CheckLock(); err != nil {
		return nil, err
	}
	if len(v.Snapshots) > 0 {
		return nil, answer.Die("unable to create template, because VM contains snapshots")
	}
	if v.Template() && disk == "" {
		return nil, answer.Die("you can't convert a template to a template")
	}
	if v.Running {
		return nil, answer.Die("you can't convert a VM to template if VM is running")
	}
	return c.StartTask("qmtemplate", strconv.Itoa(v.ID), func(w world.Worker) error {
		unlock, err := w.Lock(world.ConfigLock(v.ID), false, world.ConfigLockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		if v.Running {
			return answer.Die("you can't convert a VM to template if VM is running")
		}
		return toTemplate(w, v, disk)
	})
}

// toTemplate marks the VM, and renames its disks to bases where the storage knows such, or
// only one of them.
func toTemplate(w world.Worker, v *world.VM, disk string) error {
	h := w.State.Hosts[v.Node]
	v.Set("template", "1")
	for _, k := range world.Drives(v.Conf) {
		d := w.State.Props(k, v.Conf[k])
		if world.IsCDROM(d) || disk != "" && k != disk || strings.HasPrefix(path.Base(d["file"]), "base-") {
			continue
		}
		st, vol, err := h.Lookup(d["file"])
		if err != nil {
			return err
		}
		if !st.Has("template", vol.Name, false) { // the disk stays as it is, and nothing is said of it (template_create)
			continue
		}
		if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
			return err
		}
		delete(st.Volumes, vol.Name)
		dir, last := path.Split(vol.Name)
		vol.Name = dir + "base-" + strings.TrimPrefix(last, "vm-")
		st.Volumes[vol.Name] = vol
		d["file"] = st.Name + ":" + vol.Name
		v.Set(k, w.State.PrintProps(k, d))
	}
	return nil
}
