package members

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
)

// restartTime is how long a planned restart of a node takes: drain, power off, power on, Ready again
// with its GPUs. It takes two minutes if the node has no work. Pods get up to five minutes to
// end, and a host with much memory pins it for the guest page by page.
const restartTime = "2 to 10 min"

// costTime limits the wait for the list of running work: a plan can be shown without it.
const costTime = 10 * time.Second

// workTime is how long an observation of the running work stays valid for a plan, also one that
// failed: its steps share it.
const workTime = 15 * time.Second

// workObservations is the last observation of the running work in one Plan or Run.
type workObservations struct {
	mu    sync.Mutex
	last  *workObservation
	begun int // how many there were
}

// workObservation is one observation. Its fields are set before done is closed.
type workObservation struct {
	number int
	done   chan struct{}
	work   *workload.Work
	err    error
	at     time.Time
	cut    bool // its step ended before an answer: another one may have more time
}

// minObservation returns the number of the last observation that a step cannot use: that of a plan can use
// any, and one that acts next none that had begun before it asked.
func (s *workObservations) minObservation(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if converge.AboutToAct(ctx) {
		return s.begun
	}
	return 0
}

// observation returns the observation that is valid or under way, or a new one that the caller makes.
func (s *workObservations) observation(after int) (l *workObservation, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		select {
		case <-s.last.done:
		default:
			return s.last, false
		}
		if !s.last.cut && s.last.number > after && time.Since(s.last.at) < workTime {
			return s.last, false
		}
	}
	s.begun++
	s.last = &workObservation{number: s.begun, done: make(chan struct{})}
	return s.last, true
}

// Work observes the running work by node; nil if there is no cluster yet.
func (ks *Kubernetes) Work(ctx context.Context) (*workload.Work, error) {
	seen := &ks.memory.Load().work
	after := seen.minObservation(ctx)
	for {
		l, mine := seen.observation(after)
		if mine {
			l.work, l.err = ks.observeWork(ctx)
			l.at, l.cut = time.Now(), ctx.Err() != nil
			close(l.done)
			return l.work, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !l.cut && l.number > after {
			return l.work, l.err
		}
	}
}

func (ks *Kubernetes) observeWork(ctx context.Context) (*workload.Work, error) {
	limit := run.Limit(ks.Spec, costTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	client, err := ks.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return nil, nil
	}
	var work *workload.Work
	if err == nil {
		work, err = workload.Read(ctx, client)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return work, err
}

// Users names the users whose work ends if a node goes down, or says why they are unknown.
func (ks *Kubernetes) Users(ctx context.Context, of func(*workload.Work) []converge.Loss) []converge.Loss {
	w, err := ks.Work(ctx)
	switch {
	case err != nil:
		return []converge.Loss{{Unknown: true, Text: "cannot find out whose work ends: " + printable.FirstLine(err.Error())}}
	case w == nil:
		return nil
	}
	return of(w)
}

// vmIdentity identifies the VM that a node is now. An external machine is known by its name alone.
func (ks *Kubernetes) vmIdentity(ctx context.Context, name string) string {
	if n, ok := ks.Spec.Node(name); !ks.VMs || ok && !n.OnProxmox() {
		return ""
	}
	vm, err := ks.Nodes.Proxmox.VMs.Get(ctx, names.Tag(ks.Spec), name)
	switch {
	case err != nil:
		return "unknown"
	case vm == nil:
		return ""
	}
	return vm.Identity()
}

// SortNode is the sort of costs that are about a node or another machine of the cluster.
const SortNode = "node"

// Stops is the cost of nodes that are drained, go down and come back.
func (ks *Kubernetes) Stops(ctx context.Context, why string, machines ...string) []converge.Cost {
	var out []converge.Cost
	for _, name := range machines {
		cost := converge.Cost{Machine: name, Object: SortNode, Identity: ks.vmIdentity(ctx, name), Kind: converge.CostStop, Reason: why,
			Downtime: restartTime}
		of := func(w *workload.Work) []converge.Loss { return w.LossesOn(name) }
		if ks.Nodes.FileServer(name) { // mounts are hard, so it is not drained
			of = func(w *workload.Work) []converge.Loss { return w.Notebooks("") }
			cost.Reason += "; clients of its volumes wait until it is back"
		}
		cost.Users = ks.Users(ctx, of)
		out = append(out, cost)
	}
	return out
}
