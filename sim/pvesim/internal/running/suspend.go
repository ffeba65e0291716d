package running

import (
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/nodes"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/pci"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

func runStateHandlers() map[string]world.Handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]world.Handler{
		"POST " + vm + "/status/suspend": suspendVM,
		"POST " + vm + "/status/resume":  resumeVM,
		"PUT " + vm + "/sendkey":         sendKey,
		"GET " + vm + "/rrddata":         vmHistory,
	}
}

// suspendVM pauses a machine, or puts its memory on a disk and ends it.
func suspendVM(c *world.Call) (any, error) {
	v, err := runningVM(c)
	if err != nil {
		return nil, err
	}
	if !c.Params.Bool("todisk") {
		return c.StartTask("qmpause", strconv.Itoa(v.ID), func(w world.Worker) error {
			return config.WithLock(w, v, func() error {
				if err := v.CheckLock(); err != nil {
					return err
				}
				v.Paused = v.Running
				return nil
			})
		})
	}
	if err := access.Need(c.State, c.Who, "/vms/"+strconv.Itoa(v.ID), "VM.Config.Disk"); err != nil {
		return nil, err
	}
	if len(pci.Slots(v.Conf)) > 0 {
		return nil, answer.Die("cannot suspend VM to disk due to passed-through PCI device(s), which lack the possibility to save/restore their internal state")
	}
	store := stateStorage(c, v)
	if err := access.Need(c.State, c.Who, "/storage/"+store, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	return c.StartTask("qmsuspend", strconv.Itoa(v.ID), func(w world.Worker) error {
		return config.WithLock(w, v, func() error {
			st := w.State.Hosts[v.Node].Stores[store]
			if st == nil {
				return answer.Die("storage '%s' does not exist", store)
			}
			return suspend(w, v, st)
		})
	})
}

// stateStorage is where a VM's memory goes: as asked for, as configured, or where
// its first disk is.
func stateStorage(c *world.Call, v *world.VM) string {
	for _, name := range []string{c.Param("statestorage"), v.Conf["vmstatestorage"]} {
		if name != "" {
			return name
		}
	}
	for _, k := range config.Disks(c.State, v.Conf) {
		if st, _ := c.Host().Volume(c.State.Props(k, v.Conf[k])["file"]); st != nil {
			return st.Name
		}
	}
	return "local"
}

func suspend(w world.Worker, v *world.VM, st *world.Storage) error {
	if err := v.CheckLock(); err != nil {
		return err
	}
	v.Set("lock", "suspending")
	name := st.Full(v.ID, "vm-"+strconv.Itoa(v.ID)+"-state-suspend-"+time.Now().Format(time.DateOnly), "raw")
	err := storages.Allocate(w, st, name, v.ID, 2*v.Memory()+int64(500*model.MiB), nil)
	if err == nil {
		err = storages.CopyData(w, st, v.Memory())
	}
	v.Unset("lock")
	if err != nil {
		return err
	}
	Kill(w.State, v)
	v.Set("vmstate", st.Name+":"+name)
	v.Set("lock", "suspended")
	return nil
}

// awake removes what suspend has left in a configuration.
func awake(w world.Worker, v *world.VM) {
	w.Log("Resuming suspended VM")
	if st, name := w.State.Hosts[v.Node].Volume(v.Conf["vmstate"]); st != nil {
		_ = st.Remove(name)
	}
	v.Unset("lock")
	v.Unset("vmstate")
}

func resumeVM(c *world.Call) (any, error) {
	for _, name := range []string{"skiplock", "nocheck"} {
		if err := config.RootOption(c, name); err != nil {
			return nil, err
		}
	}
	v, err := c.State.Find(c.VMID(), c.Param("node"))
	if err != nil {
		return nil, err
	}
	suspended := v.Conf["lock"] == "suspended"
	if !v.Running && !suspended {
		return nil, answer.Die("VM %d not running", v.ID)
	}
	return c.StartTask("qmresume", strconv.Itoa(v.ID), func(w world.Worker) error {
		if suspended {
			return Start(w, Starting{ID: v.ID, Node: v.Node})
		}
		return config.WithLock(w, v, func() error {
			v.Paused = false
			return nil
		})
	})
}

func sendKey(c *world.Call) (any, error) {
	if err := config.RootOption(c, "skiplock"); err != nil {
		return nil, err
	}
	v, err := c.VM()
	if err == nil && !v.Running {
		err = answer.Die("VM %d not running", v.ID)
	}
	if err != nil {
		return nil, err
	}
	if m, ok := v.Machine.(hypervisor.Typist); ok {
		c.State.WithoutLock(func() { m.Press(c.Param("key")) })
	}
	return nil, nil
}

func vmHistory(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil { // nobody asks whether there is one
		return nil, nodes.NoHistory(c.VMID())
	}
	if err := checkHistory(v, c.State); err != nil {
		return nil, err
	}
	figures := map[string]any{"maxcpu": v.CPUs(), "maxmem": v.Memory(), "maxdisk": v.DiskSize(c.State), "disk": 0}
	if v.Running {
		for _, k := range []string{"cpu", "netin", "netout", "diskread", "diskwrite"} {
			figures[k] = 0
		}
		figures["mem"] = v.Memory() / 2
		if !strings.HasPrefix(c.State.Version, "8.") {
			figures["memhost"] = v.Memory() / 2
			nodes.Pressures(figures, "pressurecpusome", "pressurecpufull", "pressureiosome", "pressureiofull", "pressurememorysome", "pressurememoryfull")
		}
	}
	return nodes.History(c, figures), nil
}
