package running

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// poweredOff hears that a guest has switched itself off. A reboot from inside is
// QEMU's own affair.
func poweredOff(s *world.State, v *world.VM, m hypervisor.Guest, reboot bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if reboot || !v.Running || v.Machine != m || s.Closed {
		return
	}
	powerOff(s, v)
}

// powerOff is what happens on a host when a QEMU process is gone.
func powerOff(s *world.State, v *world.VM) {
	v.Power(false)
	_ = config.ApplyPending((world.Worker{State: s}), world.Identity{ID: "root@pam"}, v, map[string]string{})
	if s.Options.CleanupLinger <= 0 {
		return
	}
	s.Spawn(func() { // qmeventd calls qm cleanup, which comes late and waits for a process that is a new one
		if s.Wait(time.Second, nil) != nil {
			return
		}
		unlock, err := (world.Worker{State: s}).Lock(world.ConfigLock(v.ID), false, world.ConfigLockTimeout)
		if err != nil {
			return
		}
		defer unlock()
		if v.Running {
			_ = s.Wait(s.Options.CleanupLinger, nil)
		}
	})
}

// Kill ends the VM's process.
func Kill(s *world.State, v *world.VM) {
	m := v.Machine
	if m != nil {
		v.Machine = nil
		s.WithoutLock(m.Kill)
	}
	if v.Running {
		powerOff(s, v)
	}
}

func stopVM(c *world.Call) (any, error) {
	for _, name := range []string{"skiplock", "keepActive", "migratedfrom"} {
		if err := config.RootOption(c, name); err != nil {
			return nil, err
		}
	}
	id, node := c.VMID(), c.Param("node")
	if c.Params.Bool("overrule-shutdown") {
		if haEntry(c.State, id) != nil {
			return nil, answer.BadParam("overrule-shutdown", "Not applicable for HA resources.")
		}
		overrule(c.State, id)
	}
	return power(c, "qmstop", id, "stopped", func(w world.Worker) error {
		v, unlock, err := lockedVM(w, id, node, c.Params.Bool("skiplock"))
		if err != nil {
			return err
		}
		defer unlock()
		if !v.Running {
			return nil
		}
		if err := w.Sleep(w.State.Options.Timing.Stop); err != nil {
			return err
		}
		Kill(w.State, v)
		for _, i := range pci.Slots(v.Conf) { // who cleans up reads them again
			key := "hostpci" + strconv.Itoa(i)
			if _, err := pci.Candidates(w.State, w.State.Hosts[node], w.State.Props(key, v.Conf[key])); err != nil {
				w.Log("%s", err)
				break
			}
		}
		return nil
	})
}

// overrule ends the tasks that wait for a VM to shut down.
func overrule(s *world.State, vmid int) {
	for _, t := range s.TaskOrder {
		if t.Kind == "qmshutdown" && t.ID == strconv.Itoa(vmid) && t.Running() && !t.Asked {
			t.Asked = true
			close(t.Stop)
		}
	}
}

// lockedVM is how workers get hold of a VM that nobody else works on.
func lockedVM(w world.Worker, id int, node string, skipLock bool) (*world.VM, func(), error) {
	unlock, err := w.Lock(world.ConfigLock(id), false, world.ConfigLockTimeout)
	if err != nil {
		return nil, nil, err
	}
	v, err := w.State.Find(id, node)
	if err == nil && v.Running && !skipLock {
		err = v.CheckLock()
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return v, unlock, nil
}

// shutdownTimeout is how long a guest has unless the request says otherwise.
const shutdownTimeout = 60

func shutdownVM(c *world.Call) (any, error) {
	for _, name := range []string{"skiplock", "keepActive"} {
		if err := config.RootOption(c, name); err != nil {
			return nil, err
		}
	}
	id, node := c.VMID(), c.Param("node")
	timeout := time.Duration(c.Params.Int("timeout", shutdownTimeout)) * time.Second
	force := c.Params.Bool("forceStop")
	if v := c.State.VMs[id]; v != nil && v.Running && v.Paused && !force {
		return nil, answer.Die("VM is paused - cannot shutdown")
	}
	return power(c, "qmshutdown", id, "stopped", func(w world.Worker) error {
		v, unlock, err := lockedVM(w, id, node, c.Params.Bool("skiplock"))
		if err != nil {
			return err
		}
		defer unlock()
		return shutdown(w, v, timeout, force)
	})
}

// agentPatience is how long Proxmox waits for a guest agent before it does without.
const agentPatience = 3 * time.Second

// obeys tells whether a machine in whose guest nobody looks would end when asked to:
// those of other people do, and installers from a disc. One that was started with
// nothing in it does not hear of it.
func obeys(s *world.State, v *world.VM) bool {
	return v.Others || slices.ContainsFunc(world.Drives(v.Conf), func(k string) bool {
		d := s.Props(k, v.Conf[k])
		return world.IsCDROM(d) && strings.Contains(d["file"], ":iso/")
	})
}

// bareShutdown is how long they take for it.
const bareShutdown = 3 * time.Second

func shutdown(w world.Worker, v *world.VM, timeout time.Duration, force bool) error {
	if !v.Running {
		return nil
	}
	m, off := v.Machine, v.Off
	switch {
	case m != nil:
	case obeys(w.State, v) && timeout > bareShutdown:
		if err := w.Sleep(bareShutdown); err != nil {
			return err
		}
		Kill(w.State, v)
		return nil
	case config.AgentOn(v.Conf):
		if err := w.Sleep(agentPatience); err != nil {
			return err
		}
		w.Log("QEMU Guest Agent is not running - VM %d qga command 'guest-ping' failed - got timeout", v.ID)
	}
	if m != nil {
		w.State.WithoutLock(func() { _ = m.Shutdown() })
	}
	err := w.WaitFor(off, timeout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, world.ErrStopped), errors.Is(err, world.ErrClosed):
		return err
	case !force:
		return answer.Die("VM quit/powerdown failed - got timeout")
	}
	w.Log("VM still running - terminating now with SIGTERM")
	Kill(w.State, v)
	return nil
}

// rebootVM asks the guest to end; what starts it again is a task of root's own.
func rebootVM(c *world.Call) (any, error) {
	v, err := c.State.Find(c.VMID(), c.Param("node"))
	switch {
	case err != nil:
		return nil, err
	case v.Running && v.Paused:
		return nil, answer.Die("VM is paused - cannot shutdown")
	case !v.Running:
		return nil, answer.Die("VM %d not running", v.ID)
	}
	timeout := time.Duration(c.Params.Int("timeout", shutdownTimeout)) * time.Second
	return c.StartTask("qmreboot", strconv.Itoa(v.ID), func(w world.Worker) error {
		v, unlock, err := lockedVM(w, v.ID, v.Node, false)
		if err != nil {
			return err
		}
		defer unlock()
		if err := shutdown(w, v, timeout, false); err != nil {
			return err
		}
		w.State.Spawn(func() {
			t := w.State.NewTask(v.Node, "qmstart", strconv.Itoa(v.ID), world.Identity{ID: "root@pam"})
			w.State.Work(t, nil, func(w world.Worker) error { return Start(w, Starting{ID: v.ID, Node: v.Node}) })
		})
		return nil
	})
}

// runningVM is the VM that a request is about, for one that runs.
func runningVM(c *world.Call) (*world.VM, error) {
	if err := config.RootOption(c, "skiplock"); err != nil {
		return nil, err
	}
	v, err := c.State.Find(c.VMID(), c.Param("node"))
	if err != nil {
		return nil, err
	}
	if !v.Running {
		return nil, answer.Die("VM %d not running", v.ID)
	}
	return v, nil
}

func resetVM(c *world.Call) (any, error) {
	v, err := runningVM(c)
	if err != nil {
		return nil, err
	}
	return c.StartTask("qmreset", strconv.Itoa(v.ID), func(w world.Worker) error {
		m := v.Machine
		if m == nil {
			return nil
		}
		var err error
		w.State.WithoutLock(func() {
			m.Kill()
			err = m.Boot(w.State.Life)
		})
		return err
	})
}
