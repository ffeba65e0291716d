package k3s

import (
	"sync"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// state is what of K3s is in a running system.
type state struct {
	running atomic.Pointer[node]
	joining atomic.Pointer[node] // a server that is not one yet

	resetting atomic.Bool // a k3s server --cluster-reset runs
}

func stateOf(s *machine.System) *state { return machine.StateOf[state](s) }

// joiningServer is the K3s on a machine that is about to become a server, or nil.
func joiningServer(m *machine.Machine) *node {
	s := m.System()
	if s == nil {
		return nil
	}
	return stateOf(s).joining.Load()
}

// neighbours are the machines of a network on which a K3s runs, or is about to.
type neighbours struct {
	mu sync.Mutex
	by map[network.Host]*machine.Machine
}

// isSeen makes others on the network find the machine while it has a K3s.
func (n *node) isSeen() {
	here := stateOf(n.sys)
	all := network.StateOf[neighbours](n.sys.Config.Network)
	all.mu.Lock()
	defer all.mu.Unlock()
	if here.running.Load() == nil && here.joining.Load() == nil {
		delete(all.by, n.sys.Answers())
		return
	}
	if all.by == nil {
		all.by = map[network.Host]*machine.Machine{}
	}
	all.by[n.sys.Answers()] = n.sys.Machine()
}

// neighbour is the machine behind an answer, nil where it has no K3s.
func neighbour(on *network.Network, h network.Host) *machine.Machine {
	all := network.StateOf[neighbours](on)
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.by[h]
}

// serverOn is the K3s server that runs on a machine, or nil.
func serverOn(m *machine.Machine) *node {
	s := m.System()
	if s == nil {
		return nil
	}
	n := stateOf(s).running.Load()
	if n == nil || n.role != "server" || !n.cluster.quorate() {
		return nil
	}
	return n
}
