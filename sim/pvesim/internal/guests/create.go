package guests

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/running"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

func createVM(c *world.Call) (any, error) {
	id := c.VMID()
	if !c.Params.Has("vmid") {
		id = c.State.FreeID()
		c.Params["vmid"] = []string{strconv.Itoa(id)}
	}
	if from := c.Param("archive"); from != "" {
		if c.State.VMs[id] != nil && !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(id), "VM.Allocate") {
			if err := access.Need(c.State, c.Who, "/vms/"+strconv.Itoa(id), "VM.Backup"); err != nil {
				return nil, err
			}
		}
		if err := mayRestore(c, from); err != nil {
			return nil, err
		}
		return nil, answer.Die("unable to restore VM %d - backups are not simulated", id)
	}
	opts := config.Options(c)
	if err := config.CheckSSHKeys(opts["sshkeys"]); err != nil {
		return nil, err
	}
	if err := mayCreate(c, id, opts); err != nil {
		return nil, err
	}
	if other := c.State.VMIDConflict(id); other != "" {
		return nil, answer.Die("unable to create VM %d - %s", id, other)
	}
	now := time.Now()
	v := &world.VM{ID: id, Node: c.Param("node"), Pool: c.Param("pool"), Conf: map[string]string{"lock": "create"}, Created: now, Since: now}
	c.State.VMs[id] = v
	fault := c.GuestFaults()
	return c.StartTask("qmcreate", strconv.Itoa(id), func(w world.Worker) error {
		err := config.MayTagNew(w.State, c.Who, id, opts)
		if err == nil {
			err = create(w, v, opts)
		}
		if err != nil {
			delete(c.State.VMs, id)
			return answer.Die("unable to create VM %d - %s", id, err)
		}
		if c.Params.Bool("ha-managed") {
			resources := world.Register{Path: "/cluster/ha/resources", ID: "sid"}
			w.State.Entries(resources)["vm:"+strconv.Itoa(id)] = map[string][]string{"state": {"started"}}
		}
		if c.Params.Bool("start") {
			w.Log("Execute autostart")
			if fault != nil {
				v.Faults = *fault
			}
			c.State.Spawn(func() {
				t := c.State.NewTask(v.Node, "qmstart", strconv.Itoa(id), c.Who)
				c.State.Work(t, nil, func(w world.Worker) error { return running.Start(w, running.Starting{ID: id, Node: v.Node}) })
			})
		}
		return nil
	}, func() { delete(c.State.VMs, id) })
}

// mayCreate are the checks of a creation, all before the task.
func mayCreate(c *world.Call, id int, opts map[string]string) error {
	if err := access.NeedPool(c); err != nil {
		return err
	}
	if !access.Can(c.State, c.Who, "/vms/"+strconv.Itoa(id), "VM.Allocate") &&
		(!c.Params.Has("pool") || !access.Can(c.State, c.Who, "/pool/"+c.Param("pool"), "VM.Allocate")) {
		return access.BareRefusal()
	}
	if err := config.RootOption(c, "skiplock"); err != nil {
		return err
	}
	if c.Params.Bool("start") && c.State.IsNine() {
		if err := config.NeedOnVM(c.State, c.Who, id, c.Param("pool"), "VM.PowerMgmt"); err != nil {
			return err
		}
	}
	config.ResolveCDROM(opts)
	keys := slices.Sorted(maps.Keys(opts))
	if err := config.MayStore(c, opts); err != nil {
		return err
	}
	if err := config.MayConfigure(c, id, keys); err != nil {
		return err
	}
	return mayUse(c, id, keys, opts)
}

// mayUse checks what options refer to: storages, devices, bridges, drives.
func mayUse(c *world.Call, id int, keys []string, opts map[string]string) error {
	for _, k := range keys {
		var err error
		switch {
		case config.PassedThrough.MatchString(k):
			err = config.MayPassThrough(c.State, c.Who, id, c.Param("pool"), k, opts[k])
		case world.NetKey.MatchString(k):
			err = config.MayBridge(c.State, c.Who, k, opts[k])
		}
		if err != nil {
			return err
		}
	}
	return config.CheckDriveParams(c.State, opts)
}

// create is the work of qmcreate.
func create(w world.Worker, v *world.VM, opts map[string]string) (err error) {
	unlock, err := w.Lock(world.ConfigLock(v.ID), false, world.CreateLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	var made storages.Allocations
	defer func() {
		if err != nil {
			made.Undo()
		}
	}()
	if err := oneCloudDrive(w.State, opts); err != nil {
		return err
	}
	for _, k := range world.Drives(opts) {
		if m := world.NewDisk.FindStringSubmatch(w.State.Props(k, opts[k])["file"]); m != nil {
			if err := w.State.Hosts[v.Node].StoreReady(m[1]); err != nil {
				return err
			}
		}
	}
	conf := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		value := opts[k]
		if world.IsDrive(k) {
			if value, err = config.MakeDrive(w, v, k, value, &made); err != nil {
				return err
			}
		}
		if conf[k], err = config.FileValue(w.State, k, config.Normal(w.State, k, value)); err != nil {
			return err
		}
	}
	maps.DeleteFunc(conf, func(_, value string) bool { return value == "" })
	if err := config.CheckVGA(w.State, conf["vga"]); err != nil {
		return err
	}
	if conf["vmgenid"] == "" {
		conf["vmgenid"] = w.State.UUID()
	}
	if conf["smbios1"] == "" {
		conf["smbios1"] = "uuid=" + w.State.UUID()
	}
	if pinned := config.PinnedMachine(w.State, conf["machine"], conf["ostype"]); pinned != "" {
		w.Log("pinning machine type to '%s' for Windows guest OS", w.State.Props("machine", pinned)["type"])
		conf["machine"] = pinned
	}
	if err := config.CheckMachine(w.State, conf["machine"]); err != nil {
		return err
	}
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", w.State.QEMU, time.Now().Unix())
	if conf["boot"] == "" {
		conf["boot"] = usualBoot(w.State, conf)
	}
	if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
		return err
	}
	v.Conf = conf
	v.Invalidate()
	w.State.Lease(v)
	return nil
}

// oneCloudDrive refuses a second cloud-init drive.
func oneCloudDrive(s *world.State, opts map[string]string) error {
	var found []string
	for _, k := range world.Drives(opts) {
		if world.IsCloudInit(s.Props(k, opts[k])["file"]) {
			found = append(found, k)
		}
	}
	if len(found) > 1 {
		return answer.Die("%s - cloud-init drive is already attached at '%s'", found[0], found[1])
	}
	return nil
}

// mayRestore refuses archives that are none (PVE/API2/Qemu.pm, create_vm).
func mayRestore(c *world.Call, from string) error {
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		if world.IsDrive(k) {
			return answer.BadParam(k, "option conflicts with option 'archive'")
		}
	}
	switch {
	case from == "-":
		return answer.Die("pipe requires cli environment")
	case !strings.Contains(from, ":") && c.Who.Root():
		return answer.Die("can't find file '%s'", from)
	case !strings.Contains(from, ":"):
		return answer.Die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.")
	}
	_, _, err := c.Host().Lookup(from)
	return err
}

// drivesInOrder are those of a machine in the order in which Proxmox goes through them
// (PVE/QemuServer/Drive.pm, valid_drive_names).
func drivesInOrder(conf map[string]string) []string {
	rank := func(k string) int {
		bus := strings.TrimRight(k, "0123456789")
		return slices.Index([]string{"ide", "scsi", "virtio", "sata", "efidisk", "tpmstate"}, bus)*100 + schema.Atoi(strings.TrimPrefix(k, bus))
	}
	return slices.SortedStableFunc(slices.Values(world.Drives(conf)), func(a, b string) int { return rank(a) - rank(b) })
}

// usualBoot is the boot order when none is given: first disk, first CD, first card.
func usualBoot(s *world.State, conf map[string]string) string {
	var disk, cd, net string
	for _, k := range drivesInOrder(conf) {
		switch d := s.Props(k, conf[k]); {
		case k == "efidisk0" || k == "tpmstate0":
		case world.IsCDROM(d) && cd == "":
			cd = k
		case !world.IsCDROM(d) && disk == "":
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
