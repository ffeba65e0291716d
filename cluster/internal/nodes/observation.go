package nodes

import (
	"sync"
	"sync/atomic"
)

// Observation is what a run has observed of a machine.
type Observation struct {
	// Absent is set once this run has seen that the machine does not exist: other steps of this
	// run need not ask it for anything.
	Absent atomic.Bool
	// Made is set once this run has made the machine, or is about to. It is not set for a machine
	// that another run made while this one waited for its turn: that machine can be asked.
	Made atomic.Bool
	// Started is set once this run started K3s on the machine: what its journal says from then on
	// is about that start.
	Started atomic.Bool
	// answered is set once its SSH server accepted a connection.
	answered atomic.Bool
	// Owned is set once the K3s of an external server was seen to belong to this cluster.
	Owned atomic.Bool
	// looked is set once this run has looked inside.
	looked atomic.Bool
	// refused is when the login was first refused, in Unix nanoseconds: cloud-init creates the
	// login after the SSH server is up.
	refused atomic.Int64
	// sought is when this run first needed the guest agent or found no login, in Unix nanoseconds.
	sought atomic.Int64
}

// memory is what a Plan or Run knows of the machines. Its zero value is empty.
type memory struct {
	logins     logins
	identities identities
	agents     silentAgents

	mu       sync.Mutex
	machines map[string]*Observation
}

// Observation returns what this run has observed of a machine.
func (ns *Nodes) Observation(machine string) *Observation {
	m := ns.memory.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.machines == nil {
		m.machines = map[string]*Observation{}
	}
	if m.machines[machine] == nil {
		m.machines[machine] = &Observation{}
	}
	return m.machines[machine]
}
