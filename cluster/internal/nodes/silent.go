package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/proxmox"
)

// An agent that does not answer holds one of the three workers of its host for 3 s, and everybody else
// who uses the host waits for the other two. Several people may look at a cluster at once, and no process
// knows what another has just asked. So a look asks no agent of a machine that accepts no connection,
// and no further agent of a host after one that was silent. Only a run that waits for a machine asks
// again, at times, and the cluster's lease allows one such run at a time.

// waitsAfter is how long after its first look at a machine a run is one that waits for it. A plan looks once.
const waitsAfter = 5 * time.Second

// isWaiting reports whether this run has been waiting for the machine, from the first call on.
func (m *Observation) isWaiting() bool {
	now := time.Now().UnixNano()
	m.sought.CompareAndSwap(0, now)
	return time.Duration(now-m.sought.Load()) >= waitsAfter
}

// silentAgents are the hosts on which an agent did not answer in this run.
type silentAgents struct {
	mu    sync.Mutex
	hosts map[string]*silentHost
}

type silentHost struct {
	turn  chan struct{} // has one token while an agent is asked
	agent string        // the machine whose agent did not answer
	quiet atomic.Int64  // until when nobody asks for the reason of a silence, in Unix nanoseconds
}

// quietTime is how long the agents of a host are left alone after one did not answer, by those who only
// want to know why a machine is silent.
const quietTime = 10 * time.Second

// tryBegin reports whether somebody may ask an agent of the host for such a reason now, which nobody else
// may until the time is over, or until end.
func (h *silentHost) tryBegin() bool {
	now := time.Now()
	quiet := h.quiet.Load()
	return now.UnixNano() >= quiet && h.quiet.CompareAndSwap(quiet, now.Add(quietTime).UnixNano())
}

// end lets others ask at once, since an agent has answered.
func (h *silentHost) end() { h.quiet.Store(0) }

func (s *silentAgents) forHost(host string) *silentHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts == nil {
		s.hosts = map[string]*silentHost{}
	}
	if s.hosts[host] == nil {
		s.hosts[host] = &silentHost{turn: make(chan struct{}, 1)}
	}
	return s.hosts[host]
}

// askAgent asks the guest agent of vm, unless this is a look and another agent of the host has been
// silent.
func askAgent[T any](ctx context.Context, ns *Nodes, vm *proxmox.VM, ask func(context.Context) (T, error)) (T, error) {
	return run.WithAgentTimeout(ctx, func(ctx context.Context) (out T, err error) {
		if ns.Observation(vm.Name).isWaiting() {
			return ask(ctx)
		}
		host := ns.memory.Load().agents.forHost(vm.Host)
		select {
		case host.turn <- struct{}{}:
			defer func() { <-host.turn }()
		case <-ctx.Done():
			return out, ctx.Err()
		}
		if host.agent != "" && host.agent != vm.Name {
			return out, fmt.Errorf("%w: not asked, since that of %s on %s was silent", proxmox.ErrAgentNotRunning, host.agent, vm.Host)
		}
		if out, err = ask(ctx); errors.Is(err, proxmox.ErrAgentNotRunning) {
			host.agent = vm.Name
		}
		return out, err
	})
}
