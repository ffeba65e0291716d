package members

import (
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// Turns take nodes down and up again, one at a time.
type Turns struct {
	*Kubernetes
	turns *turnHolder
}

// GPUs are what nodes offer to Kubernetes.
type GPUs struct{ *Turns }

// Members are the machines of a cluster as members of its Kubernetes, as one run sees them. They are safe
// for concurrent use.
type Members struct {
	*GPUs
	saved *savedSnapshot
}

// New makes Members.
func New(c Config) *Members {
	return members(c, &api{}, &turnHolder{free: make(chan struct{}, 1)}, &savedSnapshot{})
}

// ForRun returns the same members for another run, which sees the machines as ns, and what is on them as d.
func (ms *Members) ForRun(ns *nodes.Nodes, d distribution.Distribution) *Members {
	c := ms.Config
	c.Nodes, c.Distribution = ns, d
	return members(c, ms.api, ms.turns, ms.saved)
}

func members(c Config, a *api, t *turnHolder, s *savedSnapshot) *Members {
	ks := &Kubernetes{Config: c, api: a}
	ks.memory.Store(&memory{})
	return &Members{GPUs: &GPUs{&Turns{Kubernetes: ks, turns: t}}, saved: s}
}
