package pvesim

import (
	"strconv"
	"time"
)

func runStateHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]handler{
		"POST " + vm + "/status/suspend": (*call).suspendVM,
		"POST " + vm + "/status/resume":  (*call).resumeVM,
		"PUT " + vm + "/sendkey":         (*call).sendKey,
		"GET " + vm + "/rrddata":         (*call).vmHistory,
	}
}

// suspendVM pauses a machine, or puts its memory on a disk and ends it.
func (c *call) suspendVM() (any, error) {
	v, err := c.runningVM()
	if err != nil {
		return nil, err
	}
	if !c.p.bool("todisk") {
		return c.startTask("qmpause", strconv.Itoa(v.id), func(w worker) error {
			return w.locked(v, func() error {
				if err := v.checkLock(); err != nil {
					return err
				}
				v.paused = v.running
				return nil
			})
		})
	}
	if err := c.s.need(c.who, "/vms/"+strconv.Itoa(v.id), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	if len(hostpci(v.conf)) > 0 {
		return nil, die("cannot suspend VM to disk due to passed-through PCI device(s), which lack the possibility to save/restore their internal state")
	}
	store := c.stateStorage(v)
	if err := c.s.need(c.who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	return c.startTask("qmsuspend", strconv.Itoa(v.id), func(w worker) error {
		return w.locked(v, func() error {
			st := w.s.hosts[v.node].storages[store]
			if st == nil {
				return die("storage '%s' does not exist", store)
			}
			return w.suspend(v, st)
		})
	})
}

// stateStorage is where a VM's memory goes: as asked for, as configured, or where
// its first disk is.
func (c *call) stateStorage(v *vm) string {
	for _, name := range []string{c.param("statestorage"), v.conf["vmstatestorage"]} {
		if name != "" {
			return name
		}
	}
	for _, k := range c.s.disks(v.conf) {
		if st, _ := c.host().volume(c.s.props(k, v.conf[k])["file"]); st != nil {
			return st.Name
		}
	}
	return "local"
}

func (w worker) suspend(v *vm, st *storage) error {
	if err := v.checkLock(); err != nil {
		return err
	}
	v.set("lock", "suspending")
	name := st.full(v.id, "vm-"+strconv.Itoa(v.id)+"-state-suspend-"+time.Now().Format(time.DateOnly), "raw")
	err := w.allocate(st, name, v.id, 2*v.memory()+int64(500*MiB), nil)
	if err == nil {
		err = w.copyData(v.memory())
	}
	v.unset("lock")
	if err != nil {
		return err
	}
	w.s.kill(v)
	v.set("vmstate", st.Name+":"+name)
	v.set("lock", "suspended")
	return nil
}

// awake removes what suspend has left in a configuration.
func (w worker) awake(v *vm) {
	w.log("Resuming suspended VM")
	if st, name := w.s.hosts[v.node].volume(v.conf["vmstate"]); st != nil {
		_ = st.remove(name)
	}
	v.unset("lock")
	v.unset("vmstate")
}

func (c *call) resumeVM() (any, error) {
	for _, name := range []string{"skiplock", "nocheck"} {
		if err := c.rootOption(name); err != nil {
			return nil, err
		}
	}
	v, err := c.s.find(c.vmid(), c.param("node"))
	if err != nil {
		return nil, err
	}
	suspended := v.conf["lock"] == "suspended"
	if !v.running && !suspended {
		return nil, die("VM %d not running", v.id)
	}
	return c.startTask("qmresume", strconv.Itoa(v.id), func(w worker) error {
		if suspended {
			return w.start(starting{id: v.id, node: v.node})
		}
		return w.locked(v, func() error {
			v.paused = false
			return nil
		})
	})
}

func (c *call) sendKey() (any, error) {
	if err := c.rootOption("skiplock"); err != nil {
		return nil, err
	}
	v, err := c.vm()
	if err == nil && !v.running {
		err = die("VM %d not running", v.id)
	}
	return nil, err
}

func (c *call) vmHistory() (any, error) {
	v, err := c.vm()
	if err != nil { // nobody asks whether there is one
		return nil, noHistory(c.vmid())
	}
	if err := v.recorded(c.s); err != nil {
		return nil, err
	}
	figures := map[string]any{"maxcpu": v.cpus(), "maxmem": v.memory(), "maxdisk": v.diskSize(c.s), "disk": 0}
	if v.running {
		for _, k := range []string{"cpu", "netin", "netout", "diskread", "diskwrite"} {
			figures[k] = 0
		}
		figures["mem"] = v.memory() / 2
	}
	return c.history(figures), nil
}
