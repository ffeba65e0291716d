package pvesim

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// poweredOff hears that a guest has switched itself off. A reboot from inside is
// QEMU's own affair.
func (s *state) poweredOff(v *vm, m Guest, reboot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reboot || !v.running || v.machine != m || s.closed {
		return
	}
	s.ended(v)
}

// ended is what happens on a host when a QEMU process is gone.
func (s *state) ended(v *vm) {
	v.power(false)
	_ = (worker{s: s}).applyPending(identity{"root@pam"}, v, map[string]string{})
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
func (s *state) kill(v *vm) {
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
	return c.startTask("qmstop", strconv.Itoa(id), func(w worker) error {
		v, unlock, err := w.lockedVM(id, node, c.p.bool("skiplock"))
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
		for _, i := range hostpci(v.conf) { // who cleans up reads them again
			key := "hostpci" + strconv.Itoa(i)
			if _, err := w.s.candidates(w.s.hosts[node], w.s.props(key, v.conf[key])); err != nil {
				w.log("%s", err)
				break
			}
		}
		return nil
	})
}

// overrule ends the tasks that wait for a VM to shut down.
func (s *state) overrule(vmid int) {
	for _, t := range s.order {
		if t.kind == "qmshutdown" && t.id == strconv.Itoa(vmid) && t.running() && !t.asked {
			t.asked = true
			close(t.stop)
		}
	}
}

// lockedVM is how workers get hold of a VM that nobody else works on.
func (w worker) lockedVM(id int, node string, skipLock bool) (*vm, func(), error) {
	unlock, err := w.lock(configLock(id), false, configLockTimeout)
	if err != nil {
		return nil, nil, err
	}
	v, err := w.s.find(id, node)
	if err == nil && v.running && !skipLock {
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
	if v := c.s.vms[id]; v != nil && v.running && v.paused && !force {
		return nil, die("VM is paused - cannot shutdown")
	}
	return c.startTask("qmshutdown", strconv.Itoa(id), func(w worker) error {
		v, unlock, err := w.lockedVM(id, node, c.p.bool("skiplock"))
		if err != nil {
			return err
		}
		defer unlock()
		return w.shutdown(v, timeout, force)
	})
}

// agentPatience is how long Proxmox waits for a guest agent before it does without.
const agentPatience = 3 * time.Second

// obeys tells whether a machine in whose guest nobody looks would end when asked to:
// those of other people do, and installers from a disc. One that was started with
// nothing in it does not hear of it.
func (s *state) obeys(v *vm) bool {
	return v.others || slices.ContainsFunc(drives(v.conf), func(k string) bool {
		d := s.props(k, v.conf[k])
		return isCDROM(d) && strings.Contains(d["file"], ":iso/")
	})
}

// bareShutdown is how long they take for it.
const bareShutdown = 3 * time.Second

func (w worker) shutdown(v *vm, timeout time.Duration, force bool) error {
	if !v.running {
		return nil
	}
	m, off := v.machine, v.off
	switch {
	case m != nil:
	case w.s.obeys(v) && timeout > bareShutdown:
		if err := w.sleep(bareShutdown); err != nil {
			return err
		}
		w.s.kill(v)
		return nil
	case agentOn(v.conf):
		if err := w.sleep(agentPatience); err != nil {
			return err
		}
		w.log("QEMU Guest Agent is not running - VM %d qga command 'guest-ping' failed - got timeout", v.id)
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

// rebootVM asks the guest to end; what starts it again is a task of root's own.
func (c *call) rebootVM() (any, error) {
	v, err := c.s.find(c.vmid(), c.param("node"))
	switch {
	case err != nil:
		return nil, err
	case v.running && v.paused:
		return nil, die("VM is paused - cannot shutdown")
	case !v.running:
		return nil, die("VM %d not running", v.id)
	}
	timeout := time.Duration(c.p.int("timeout", shutdownTimeout)) * time.Second
	return c.startTask("qmreboot", strconv.Itoa(v.id), func(w worker) error {
		v, unlock, err := w.lockedVM(v.id, v.node, false)
		if err != nil {
			return err
		}
		defer unlock()
		if err := w.shutdown(v, timeout, false); err != nil {
			return err
		}
		w.s.spawn(func() {
			t := w.s.newTask(v.node, "qmstart", strconv.Itoa(v.id), identity{"root@pam"})
			w.s.work(t, nil, func(w worker) error { return w.start(starting{id: v.id, node: v.node}) })
		})
		return nil
	})
}

// runningVM is the VM that a request is about, for one that runs.
func (c *call) runningVM() (*vm, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	v, err := c.s.find(c.vmid(), c.param("node"))
	if err != nil {
		return nil, err
	}
	if !v.running {
		return nil, die("VM %d not running", v.id)
	}
	return v, nil
}

func (c *call) resetVM() (any, error) {
	v, err := c.runningVM()
	if err != nil {
		return nil, err
	}
	return c.startTask("qmreset", strconv.Itoa(v.id), func(w worker) error {
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
