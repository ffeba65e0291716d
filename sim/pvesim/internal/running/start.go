package running

import (
	"regexp"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func startVM(c *world.Call) (any, error) {
	if err := config.RootOption(c, "skiplock"); err != nil {
		return nil, err
	}
	for _, name := range []string{"stateuri", "migratedfrom", "migration_type", "migration_network", "targetstorage", "force-cpu", "with-conntrack-state", "nets-host-mtu"} {
		if err := config.RootOption(c, name); err != nil {
			return nil, err
		}
	}
	how, faults := Starting{ID: c.VMID(), Node: c.Param("node"), skipLock: c.Params.Bool("skiplock")}, c.GuestFaults()
	if c.Params.Has("timeout") {
		timeout := time.Duration(c.Params.Int("timeout", 0)) * time.Second
		how.timeout = &timeout
	}
	return power(c, "qmstart", how.ID, "started", func(w world.Worker) error {
		if v := c.State.VMs[how.ID]; v != nil && faults != nil {
			v.Faults = *faults
		}
		return Start(w, how)
	})
}

// Starting is how a VM is to be started.
type Starting struct {
	ID       int
	Node     string
	timeout  *time.Duration // nil is Proxmox's own, 0 is none
	skipLock bool
}

// Start is the work of qmstart.
func Start(w world.Worker, how Starting) error {
	unlock, err := w.Lock(world.ConfigLock(how.ID), false, world.ConfigLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := w.State.Load(how.ID, how.Node)
	if err != nil {
		return err
	}
	resumes := v.Conf["lock"] == "suspended"
	switch {
	case v.Template():
		return answer.Die("you can't start a vm if it's a template")
	case v.Conf["lock"] != "" && !resumes && !how.skipLock:
		return v.CheckLock()
	case v.Running:
		return answer.Die("VM %d already running", how.ID)
	}
	if resumes {
		awake(w, v)
	}
	if len(v.Pending) > 0 && !resumes {
		if err := config.ApplyPending(w, world.Identity{ID: "root@pam"}, v, map[string]string{}); err != nil {
			return err
		}
	}
	if err := checkStorages(w, v); err != nil {
		return err
	}
	warned, err := checkStart(w, v)
	if err != nil {
		return err
	}
	if err := pci.PlugAllUSB(w.State, v); err != nil {
		return err
	}
	pci, held, err := pci.PassThrough(w, v)
	if err != nil {
		if unreadPCI.MatchString(err.Error()) { // who cleans up reads it again
			w.Log("%s", err)
		}
		return err
	}
	v.PCI = held
	if err := qemuStarts(w, v); err != nil {
		if v.Conf["tpmstate0"] != "" { // the emulator that QEMU would have asked runs
			w.State.PIDs += 3
			w.Log("stopping swtpm instance (pid %d) due to QEMU startup error", w.State.PIDs)
		}
		v.PCI = nil
		return err
	}
	if err := launch(w, v, how.timeout, resumes); err != nil {
		v.PCI = nil
		return err
	}
	if err := boot(w, v, pci); err != nil {
		return err
	}
	if warned > 0 {
		return world.Warnings(warned)
	}
	return nil
}

// unreadPCI are refusals of what a hostpciN says itself (PVE/QemuServer/PCI.pm, parse_hostpci).
var unreadPCI = regexp.MustCompile(`^(PCI device mapping|no PCI device|cannot use mediated|Cannot set both|Either 'host')`)

// launch is the time until QEMU is up. With passed-through devices all of the
// memory is pinned first, which is long for much of it; what does not come up in
// time is killed.
func launch(w world.Worker, v *world.VM, timeout *time.Duration, resumes bool) error {
	takes, limit := w.State.Options.Timing.Start, StartTimeout(v, resumes)
	if timeout != nil {
		limit = *timeout
	}
	if len(v.PCI) > 0 {
		takes += world.Took(model.Size(v.Memory()), w.State.Options.Timing.PinRate)
	}
	if limit == 0 || takes <= limit {
		return w.Sleep(takes)
	}
	if err := w.Sleep(limit); err != nil {
		return err
	}
	return answer.Die("start failed: command '/usr/bin/kvm -id %d -name '%s,debug-threads=on' -no-shutdown "+
		"-chardev 'socket,id=qmp,path=/var/run/qemu-server/%d.qmp,server=on,wait=off' -mon 'chardev=qmp,mode=control' "+
		"-pidfile /var/run/qemu-server/%d.pid -daemonize -smp '%d' -m %d' failed: got timeout",
		v.ID, v.Conf["name"], v.ID, v.ID, v.CPUs(), v.Memory()>>20)
}

// StartTimeout is how long Proxmox gives QEMU unless the request says otherwise
// (PVE/QemuServer/Helpers.pm, config_aware_timeout).
func StartTimeout(v *world.VM, resumes bool) time.Duration {
	limit, nics := 30, 0
	if mib := v.Memory() >> 20; mib > 30720 {
		limit = int(mib / 1024)
	}
	if len(pci.Slots(v.Conf)) > 0 {
		limit *= 4
	}
	if resumes {
		limit = max(limit, 300)
	}
	if h := v.Conf["hugepages"]; h != "" && h != "0" {
		limit = max(limit, 150)
	}
	for k := range v.Conf {
		nics += answer.Flag(world.NetKey.MatchString(k))
	}
	return time.Duration(limit+5*nics) * time.Second
}

// checkStart looks at what a configuration refers to, which is nowhere looked at
// before a start.
func checkStart(w world.Worker, v *world.VM) (warned int, err error) {
	h := w.State.Hosts[v.Node]
	hasEFI := v.Conf["efidisk0"] != ""
	for _, k := range world.Drives(v.Conf) {
		file := w.State.Props(k, v.Conf[k])["file"]
		if file == "none" || file == "cdrom" || strings.HasPrefix(file, "/") {
			continue
		}
		if world.IsCloudInit(file) {
			if err := config.CheckSnippets(w, v); err != nil {
				return 0, err
			}
			w.Log("generating cloud-init ISO")
			v.CloudDrive = config.CloudOptions(v.Conf)
		}
		if _, _, err := h.Lookup(file); err != nil {
			return 0, err
		}
	}
	if err := checkCommand(w, v); err != nil {
		return 0, err
	}
	for _, k := range world.Drives(v.Conf) {
		if d := w.State.Props(k, v.Conf[k]); d["iothread"] == "1" && strings.HasPrefix(k, "scsi") && v.Conf["scsihw"] != "virtio-scsi-single" {
			w.Log("WARN: iothread is only valid with virtio disk or virtio-scsi-single controller, ignoring")
			warned++
		}
	}
	if v.Conf["bios"] == "ovmf" && !hasEFI {
		w.Log("WARN: no efidisk configured! Using temporary efivars disk.")
		warned++
	}
	return warned, nil
}

// qemuStarts is what ends QEMU at once: bridges that are not there, CPUs that are
// not, memory that is not.
func qemuStarts(w world.Worker, v *world.VM) error {
	if err := checkAffinity(w, v); err != nil {
		return err
	}
	if n, most := v.CPUs(), v.Cores(); n > most {
		return quits(w, "Invalid CPU topology: maxcpus must be equal to or greater than smp: sockets (%d) * dies (1) * modules (1) * cores (%d) * threads (1) "+
			"== maxcpus (%d) < smp_cpus (%d)", max(1, schema.Atoi(v.Conf["sockets"])), max(1, schema.Atoi(v.Conf["cores"])), most, n)
	}
	if err := drivesOpen(w, v); err != nil {
		return err
	}
	for i := range 32 {
		if err := checkNetworkCard(w, v, i); err != nil {
			return err
		}
	}
	return memoryFits(w, v)
}

// memoryFits is QEMU asking for memory: with passed-through devices all of it is
// pinned at once, and what is not there cannot be.
func memoryFits(w world.Worker, v *world.VM) error {
	free := int64(w.State.Hosts[v.Node].Memory) - w.State.UsedMemory(v.Node)
	if v.Memory() <= free || len(v.PCI) == 0 && v.Memory() <= int64(w.State.Hosts[v.Node].Memory) {
		return nil
	}
	w.Log("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory")
	return answer.Die("start failed: QEMU exited with code 1")
}
