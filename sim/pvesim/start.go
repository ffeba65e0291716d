package pvesim

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

func (c *call) startVM() (any, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	for _, name := range []string{"stateuri", "migratedfrom", "migration_type", "migration_network", "targetstorage", "force-cpu"} {
		if err := c.rootOption(name); err != nil {
			return nil, err
		}
	}
	how, faults := starting{id: c.vmid(), node: c.param("node"), skipLock: c.p.bool("skiplock")}, c.guestFaults()
	if c.p.has("timeout") {
		timeout := time.Duration(c.p.int("timeout", 0)) * time.Second
		how.timeout = &timeout
	}
	return c.startTask("qmstart", strconv.Itoa(how.id), func(w worker) error {
		if v := c.s.vms[how.id]; v != nil && faults != nil {
			v.faults = *faults
		}
		return w.start(how)
	})
}

// starting is how a VM is to be started.
type starting struct {
	id       int
	node     string
	timeout  *time.Duration // nil is Proxmox's own, 0 is none
	skipLock bool
}

// start is the work of qmstart.
func (w worker) start(how starting) error {
	unlock, err := w.lock(configLock(how.id), false, configLockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := w.s.load(how.id, how.node)
	if err != nil {
		return err
	}
	resumes := v.conf["lock"] == "suspended"
	switch {
	case v.template():
		return die("you can't start a vm if it's a template")
	case v.conf["lock"] != "" && !resumes && !how.skipLock:
		return v.checkLock()
	case v.running:
		return die("VM %d already running", how.id)
	}
	if resumes {
		w.awake(v)
	}
	if len(v.pending) > 0 && !resumes {
		if err := w.applyPending(identity{"root@pam"}, v, map[string]string{}); err != nil {
			return err
		}
	}
	if err := w.checkStorages(v); err != nil {
		return err
	}
	warned, err := w.checkStart(v)
	if err != nil {
		return err
	}
	pci, held, err := w.passThrough(v)
	if err != nil {
		if unreadPCI.MatchString(err.Error()) { // who cleans up reads it again
			w.log("%s", err)
		}
		return err
	}
	v.pci = held
	if err := w.qemuStarts(v); err != nil {
		v.pci = nil
		return err
	}
	if err := w.launch(v, how.timeout, resumes); err != nil {
		v.pci = nil
		return err
	}
	if err := w.boot(v, pci); err != nil {
		return err
	}
	if warned > 0 {
		return warnings(warned)
	}
	return nil
}

// unreadPCI are refusals of what a hostpciN says itself (PVE/QemuServer/PCI.pm, parse_hostpci).
var unreadPCI = regexp.MustCompile(`^(PCI device mapping|no PCI device|cannot use mediated|Cannot set both|Either 'host')`)

// launch is the time until QEMU is up. With passed-through devices all of the
// memory is pinned first, which is long for much of it; what does not come up in
// time is killed.
func (w worker) launch(v *vm, timeout *time.Duration, resumes bool) error {
	takes, limit := w.s.opts.Timing.Start, v.startTimeout(resumes)
	if timeout != nil {
		limit = *timeout
	}
	if len(v.pci) > 0 {
		takes += took(Size(v.memory()), w.s.opts.Timing.PinRate)
	}
	if limit == 0 || takes <= limit {
		return w.sleep(takes)
	}
	if err := w.sleep(limit); err != nil {
		return err
	}
	return die("start failed: command '/usr/bin/kvm -id %d -name '%s,debug-threads=on' -no-shutdown "+
		"-chardev 'socket,id=qmp,path=/var/run/qemu-server/%d.qmp,server=on,wait=off' -mon 'chardev=qmp,mode=control' "+
		"-pidfile /var/run/qemu-server/%d.pid -daemonize -smp '%d' -m %d' failed: got timeout",
		v.id, v.conf["name"], v.id, v.id, v.cpus(), v.memory()>>20)
}

// startTimeout is how long Proxmox gives QEMU unless the request says otherwise
// (PVE/QemuServer/Helpers.pm, config_aware_timeout).
func (v *vm) startTimeout(resumes bool) time.Duration {
	limit, nics := 30, 0
	if mib := v.memory() >> 20; mib > 30720 {
		limit = int(mib / 1024)
	}
	if len(hostpci(v.conf)) > 0 {
		limit *= 4
	}
	if resumes {
		limit = max(limit, 300)
	}
	if h := v.conf["hugepages"]; h != "" && h != "0" {
		limit = max(limit, 150)
	}
	for k := range v.conf {
		nics += boolInt(netKey.MatchString(k))
	}
	return time.Duration(limit+5*nics) * time.Second
}

// checkStart looks at what a configuration refers to, which is nowhere looked at
// before a start.
func (w worker) checkStart(v *vm) (warned int, err error) {
	h := w.s.hosts[v.node]
	hasEFI := v.conf["efidisk0"] != ""
	for _, k := range drives(v.conf) {
		file := w.s.props(k, v.conf[k])["file"]
		if file == "none" || file == "cdrom" || strings.HasPrefix(file, "/") {
			continue
		}
		if isCloudInit(file) {
			if err := w.checkSnippets(v); err != nil {
				return 0, err
			}
			w.log("generating cloud-init ISO")
			v.cloudDrive = cloudOptions(v.conf)
		}
		if _, _, err := h.lookup(file); err != nil {
			return 0, err
		}
	}
	if err := w.checkCommand(v); err != nil {
		return 0, err
	}
	for _, k := range drives(v.conf) {
		if d := w.s.props(k, v.conf[k]); d["iothread"] == "1" && strings.HasPrefix(k, "scsi") && v.conf["scsihw"] != "virtio-scsi-single" {
			w.log("WARN: iothread is only valid with virtio disk or virtio-scsi-single controller, ignoring")
			warned++
		}
	}
	if v.conf["bios"] == "ovmf" && !hasEFI {
		w.log("WARN: no efidisk configured! Using temporary efivars disk.")
		warned++
	}
	return warned, nil
}

// qemuStarts is what ends QEMU at once: bridges that are not there, CPUs that are
// not, memory that is not.
func (w worker) qemuStarts(v *vm) error {
	if err := w.pinned(v); err != nil {
		return err
	}
	if n, most := v.cpus(), v.cores(); n > most {
		return w.quits("Invalid CPU topology: maxcpus must be equal to or greater than smp: sockets (%d) * dies (1) * modules (1) * cores (%d) * threads (1) "+
			"== maxcpus (%d) < smp_cpus (%d)", max(1, atoi(v.conf["sockets"])), max(1, atoi(v.conf["cores"])), most, n)
	}
	if err := w.drivesOpen(v); err != nil {
		return err
	}
	for i := range 32 {
		if err := w.plugged(v, i); err != nil {
			return err
		}
	}
	return w.memoryFits(v)
}

// memoryFits is QEMU asking for memory: with passed-through devices all of it is
// pinned at once, and what is not there cannot be.
func (w worker) memoryFits(v *vm) error {
	free := int64(w.s.hosts[v.node].Memory) - w.s.usedMemory(v.node)
	if v.memory() <= free || len(v.pci) == 0 && v.memory() <= int64(w.s.hosts[v.node].Memory) {
		return nil
	}
	w.log("kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory")
	return die("start failed: QEMU exited with code 1")
}
