package pvesim

import (
	"hash/fnv"
	"maps"
	"strconv"
	"sync"
	"time"
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

// lastWord is what pvestatd has last said of a VMID.
type lastWord struct {
	at      time.Time
	figures map[string]any
}

// stateLock guards a Sim's state. Everything happens with it held, so anyone who takes it
// finds the state of all the time since it was last released, and rounds that were due then
// are made now.
type stateLock struct {
	sync.Mutex
	due func()
}

func (l *stateLock) Lock() {
	l.Mutex.Lock()
	if l.due != nil {
		l.due()
	}
}

// beginRounds lets every node report its VMs from now on, each in its own rhythm.
// They have done so before.
func (s *state) beginRounds() {
	switch {
	case s.opts.StatusLag < 0:
		return
	case s.opts.StatusLag == 0:
		s.opts.StatusLag = usualRound
	}
	s.round = max(1, time.Duration(float64(s.opts.StatusLag)/s.opts.Speed))
	s.told, s.toldStorages = map[int]lastWord{}, map[string]bool{}
	for name, h := range s.hosts {
		s.tell(name, s.began)
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(name))
		h.tells = s.began.Add(1 + s.round*time.Duration(sum.Sum32()%1000)/1000)
	}
	s.mu.due = s.rounds
}

// rounds makes the rounds that were due before now, of which only the last counts.
func (s *state) rounds() {
	now := time.Now()
	for name, h := range s.hosts {
		if late := now.Sub(h.tells); late >= 0 {
			last := h.tells.Add(late / s.round * s.round)
			s.tell(name, last)
			h.tells = last.Add(s.round)
		}
	}
}

// tell is a round of a node's pvestatd.
func (s *state) tell(node string, at time.Time) {
	for id, v := range s.vms {
		if v.node == node {
			s.told[id] = lastWord{at, s.figures(v, at)}
		}
	}
	for name, st := range s.hosts[node].storages {
		s.toldStorages[node+"/"+name] = st.ready() == nil
	}
}

// figures are a VM's as a list of all VMs has them.
func (s *state) figures(v *vm, at time.Time) map[string]any {
	f := map[string]any{
		"name": v.called(), "status": v.status(), "template": boolInt(v.template()), "maxcpu": v.cpus(), "maxmem": v.memory(), "maxdisk": v.diskSize(s),
		"disk": 0, "diskread": 0, "diskwrite": 0, "netin": 0, "netout": 0, "cpu": 0, "mem": 0, "memhost": 0, "uptime": 0,
	}
	if v.paused {
		f["status"] = "paused"
	}
	if !s.nine() {
		delete(f, "memhost")
	}
	if v.running {
		f["uptime"], f["mem"] = int(at.Sub(v.since)/time.Second), v.memory()/2
	}
	return f
}

// resource is a VM among all resources: one that no round has met yet has no name and
// no figures.
func (s *state) resource(v *vm) map[string]any {
	r := map[string]any{"type": "qemu", "id": "qemu/" + strconv.Itoa(v.id), "vmid": v.id, "node": v.node, "status": "unknown"}
	if s.round == 0 {
		maps.Copy(r, s.figures(v, time.Now()))
	} else if t, known := s.told[v.id]; known && float64(time.Since(t.at)) <= float64(toldFor)/s.opts.Speed {
		maps.Copy(r, t.figures)
	}
	conf := v.wanted()
	for _, k := range []string{"tags", "lock"} {
		if conf[k] != "" {
			r[k] = conf[k]
		}
	}
	if v.pool != "" {
		r["pool"] = v.pool
	}
	return r
}
