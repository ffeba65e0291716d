package world

import (
	"hash/fnv"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// What /cluster/resources describes a VM is what the pvestatd of its node has told all
// nodes in its last round, but for its tags, lock, pool and node, which are read from
// the files at once, and for whether it is there at all (extract_vm_stats in
// PVE/API2Tools.pm, resources in PVE/API2/Cluster.pm).
const (
	usualRound = 10 * time.Second // $updatetime in PVE/Service/pvestatd.pm
	// toldFor is how long what was said of a VMID is kept, whether or not its VM is still
	// there (rrd_entry_is_old in pmxcfs' status.c). One that is used again within that
	// time shows the name and numbers of the VM before it.
	toldFor = 5 * time.Minute
)

// LastWord is what pvestatd has last said of a VMID.
type LastWord struct {
	At      time.Time
	Figures map[string]any
}

// stateLock guards a State. Everything happens with it held, so anyone who takes it
// finds the state of all the time since it was last released, and rounds that were due then
// are made now.
type stateLock struct {
	sync.Mutex
	due func()
}

// Lock takes the lock, and makes the rounds that were due.
func (l *stateLock) Lock() {
	l.Mutex.Lock()
	if l.due != nil {
		l.due()
	}
}

// BeginRounds lets every node report its VMs from now on, each in its own rhythm.
// They have done so before.
func (s *State) BeginRounds() {
	switch {
	case s.Options.StatusLag < 0:
		return
	case s.Options.StatusLag == 0:
		s.Options.StatusLag = usualRound
	}
	s.Round = max(1, time.Duration(float64(s.Options.StatusLag)/s.Options.Speed))
	s.Told, s.ToldStorages = map[int]LastWord{}, map[string]bool{}
	for name, h := range s.Hosts {
		s.tell(name, s.Began)
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(name))
		h.Tells = s.Began.Add(1 + s.Round*time.Duration(sum.Sum32()%1000)/1000)
	}
	s.Mu.due = s.rounds
}

// rounds makes the rounds that were due before now, of which only the last counts.
func (s *State) rounds() {
	now := time.Now()
	for name, h := range s.Hosts {
		if late := now.Sub(h.Tells); late >= 0 {
			last := h.Tells.Add(late / s.Round * s.Round)
			s.tell(name, last)
			h.Tells = last.Add(s.Round)
		}
	}
}

// tell is a round of a node's pvestatd.
func (s *State) tell(node string, at time.Time) {
	for id, v := range s.VMs {
		if v.Node == node {
			s.Told[id] = LastWord{at, s.Figures(v, at)}
		}
	}
	for name, st := range s.Hosts[node].Stores {
		s.ToldStorages[node+"/"+name] = st.Ready() == nil
	}
}

// Figures are a VM's as a list of all VMs has them.
func (s *State) Figures(v *VM, at time.Time) map[string]any {
	f := map[string]any{
		"name": v.DisplayName(), "status": v.Status(), "template": answer.Flag(v.Template()), "maxcpu": v.CPUs(), "maxmem": v.Memory(), "maxdisk": v.DiskSize(s),
		"disk": 0, "diskread": 0, "diskwrite": 0, "netin": 0, "netout": 0, "cpu": 0, "mem": 0, "memhost": 0, "uptime": 0,
	}
	if v.Paused {
		f["status"] = "paused"
	}
	if !s.IsNine() {
		delete(f, "memhost")
	}
	if v.Running {
		f["uptime"], f["mem"] = int(at.Sub(v.Since)/time.Second), v.Memory()/2
	}
	return f
}

// Resource is a VM among all resources: one that no round has met yet has no name and
// no figures.
func (s *State) Resource(v *VM) map[string]any {
	r := map[string]any{"type": "qemu", "id": "qemu/" + strconv.Itoa(v.ID), "vmid": v.ID, "node": v.Node, "status": "unknown"}
	if s.Round == 0 {
		maps.Copy(r, s.Figures(v, time.Now()))
	} else if t, known := s.Told[v.ID]; known && float64(time.Since(t.At)) <= float64(toldFor)/s.Options.Speed {
		maps.Copy(r, t.Figures)
	}
	conf := v.PendingConf()
	for _, k := range []string{"tags", "lock"} {
		if conf[k] != "" {
			r[k] = conf[k]
		}
	}
	if v.Pool != "" {
		r["pool"] = v.Pool
	}
	return r
}

// ContainerFigures is a container in a list.
func ContainerFigures(ct model.Container) map[string]any {
	e := map[string]any{"type": "lxc", "id": "lxc/" + strconv.Itoa(ct.ID), "vmid": ct.ID, "node": ct.Node, "name": ct.Name, "status": "stopped", "template": 0}
	if ct.Running {
		e["status"] = "running"
	}
	if tags := ct.Config["tags"]; tags != "" {
		e["tags"] = tags
	}
	return e
}
