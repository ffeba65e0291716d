package pvesim

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/proxmox/pvesim/guest"
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
	return c.startTask("qmstart", itoa(how.id), func(w worker) error {
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
	v, err := w.s.find(how.id, how.node)
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
	if len(v.pending) > 0 {
		v.applyPending()
	}
	warned, err := w.checkStart(v)
	if err != nil {
		return err
	}
	pci, held, err := w.passThrough(v)
	if err != nil {
		if strings.HasPrefix(err.Error(), "PCI device mapping invalid") || strings.HasPrefix(err.Error(), "no PCI device") {
			w.log("%s", err)
		}
		return err
	}
	v.pci = held
	if err := w.memoryFits(v); err != nil {
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

var netKey = regexp.MustCompile(`^net\d+$`)

// checkStart looks at what a configuration refers to, which is nowhere looked at
// before a start.
func (w worker) checkStart(v *vm) (warned int, err error) {
	h := w.s.hosts[v.node]
	if n := v.cpus(); n > h.CPUs {
		return 0, die("MAX %d vcpus allowed per VM on this node", h.CPUs)
	}
	hasEFI := v.conf["efidisk0"] != ""
	for _, k := range drives(v.conf) {
		file := w.s.props(k, v.conf[k])["file"]
		if file == "none" || file == "cdrom" || strings.HasPrefix(file, "/") {
			continue
		}
		if isCloudInit(file) {
			w.log("generating cloud-init ISO")
			v.cloudDrive = cloudOptions(v.conf)
		}
		if _, _, err := h.lookup(file); err != nil {
			return 0, err
		}
	}
	for i := range 32 {
		b := w.s.props("net0", v.conf["net"+itoa(i)])["bridge"]
		if b != "" && !slices.Contains(h.Bridges, b) {
			return 0, die("bridge '%s' does not exist", b)
		}
	}
	if v.conf["bios"] == "ovmf" && !hasEFI {
		w.log("WARN: no efidisk configured! Using temporary efivars disk.")
		warned++
	}
	return warned, nil
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

// poweredOff hears that a guest has switched itself off. A reboot from inside is
// QEMU's own affair.
func (s *Sim) poweredOff(v *vm, m *guest.Machine, reboot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reboot || !v.running || v.machine != m || s.closed {
		return
	}
	s.ended(v)
}

// ended is what happens on a host when a QEMU process is gone.
func (s *Sim) ended(v *vm) {
	v.power(false)
	if s.opts.CleanupLinger <= 0 {
		return
	}
	s.spawn(func() { // qmeventd calls qm cleanup, which comes late and waits for a process that is a new one
		if s.wait(time.Second, nil) != nil {
			return
		}
		unlock, err := (worker{s: s}).lock(configLock(v.id), false, configLockTimeout)
		if err != nil {
			return
		}
		defer unlock()
		if v.running {
			_ = s.wait(s.opts.CleanupLinger, nil)
		}
	})
}

// kill ends the VM's process.
func (s *Sim) kill(v *vm) {
	m := v.machine
	if m != nil {
		v.machine = nil
		s.outside(m.Kill)
	}
	if v.running {
		s.ended(v)
	}
}

func (c *call) stopVM() (any, error) {
	for _, name := range []string{"skiplock", "keepActive", "migratedfrom"} {
		if err := c.rootOption(name); err != nil {
			return nil, err
		}
	}
	id, node := c.vmid(), c.param("node")
	if c.p.bool("overrule-shutdown") {
		c.s.overrule(id)
	}
	return c.startTask("qmstop", itoa(id), func(w worker) error {
		v, unlock, err := w.lockedVM(id, node)
		if err != nil {
			return err
		}
		defer unlock()
		if !v.running {
			return nil
		}
		if err := w.sleep(w.s.opts.Timing.Stop); err != nil {
			return err
		}
		w.s.kill(v)
		return nil
	})
}

// overrule ends the tasks that wait for a VM to shut down.
func (s *Sim) overrule(vmid int) {
	for _, t := range s.order {
		if t.kind == "qmshutdown" && t.id == itoa(vmid) && t.running() && !t.asked {
			t.asked = true
			close(t.stop)
		}
	}
}

// lockedVM is how workers get hold of a VM that nobody else works on.
func (w worker) lockedVM(id int, node string) (*vm, func(), error) {
	unlock, err := w.lock(configLock(id), false, configLockTimeout)
	if err != nil {
		return nil, nil, err
	}
	v, err := w.s.find(id, node)
	if err == nil {
		err = v.checkLock()
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return v, unlock, nil
}

// shutdownTimeout is how long a guest has unless the request says otherwise.
const shutdownTimeout = 60

func (c *call) shutdownVM() (any, error) {
	for _, name := range []string{"skiplock", "keepActive"} {
		if err := c.rootOption(name); err != nil {
			return nil, err
		}
	}
	id, node := c.vmid(), c.param("node")
	timeout := time.Duration(c.p.int("timeout", shutdownTimeout)) * time.Second
	force := c.p.bool("forceStop")
	return c.startTask("qmshutdown", itoa(id), func(w worker) error {
		v, unlock, err := w.lockedVM(id, node)
		if err != nil {
			return err
		}
		defer unlock()
		return w.shutdown(v, timeout, force)
	})
}

// bareShutdown is how long machines take in which nobody lives.
const bareShutdown = 3 * time.Second

func (w worker) shutdown(v *vm, timeout time.Duration, force bool) error {
	if !v.running {
		return nil
	}
	m, off := v.machine, v.off
	if m == nil && timeout > bareShutdown {
		if err := w.sleep(bareShutdown); err != nil {
			return err
		}
		w.s.kill(v)
		return nil
	}
	if m != nil {
		w.s.outside(func() { _ = m.Shutdown() })
	}
	err := w.until(off, timeout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStopped), errors.Is(err, errClosed):
		return err
	case !force:
		return die("VM quit/powerdown failed - got timeout")
	}
	w.log("VM still running - terminating now with SIGTERM")
	w.s.kill(v)
	return nil
}

// until waits for a channel to be closed.
func (w worker) until(what <-chan struct{}, timeout time.Duration) (err error) {
	t := time.NewTimer(time.Duration(float64(timeout) / w.s.opts.Speed))
	defer t.Stop()
	w.s.outside(func() {
		select {
		case <-what:
		case <-t.C:
			err = context.DeadlineExceeded
		case <-w.stop():
			err = errStopped
		case <-w.s.done:
			err = errClosed
		}
	})
	return err
}

// rebootVM asks the guest to end; what starts it again is a task of root's own.
func (c *call) rebootVM() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if !v.running {
		return nil, die("VM %d not running", v.id)
	}
	timeout := time.Duration(c.p.int("timeout", shutdownTimeout)) * time.Second
	return c.startTask("qmreboot", itoa(v.id), func(w worker) error {
		v, unlock, err := w.lockedVM(v.id, v.node)
		if err != nil {
			return err
		}
		defer unlock()
		if err := w.shutdown(v, timeout, false); err != nil {
			return err
		}
		w.s.spawn(func() {
			t := w.s.newTask(v.node, "qmstart", itoa(v.id), identity{"root@pam"})
			w.s.work(t, nil, func(w worker) error { return w.start(starting{id: v.id, node: v.node}) })
		})
		return nil
	})
}

func (c *call) resetVM() (any, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if !v.running {
		return nil, die("VM %d not running", v.id)
	}
	return c.startTask("qmreset", itoa(v.id), func(w worker) error {
		m := v.machine
		if m == nil {
			return nil
		}
		var err error
		w.s.outside(func() {
			m.Kill()
			err = m.Boot(w.s.life)
		})
		return err
	})
}
