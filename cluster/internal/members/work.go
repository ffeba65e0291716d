package members

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/names"
	"github.com/cps-gpu/homelab/internal/printable"
)

// away is how long a planned restart of a node takes: drain, power off, power on, Ready again
// with its GPUs. It takes two minutes if the node has no work. Pods get up to five minutes to
// end, and a host with much memory pins it for the guest page by page.
const away = "2 to 10 min"

// costTime limits the wait for the list of running work: a plan can be shown without it.
const costTime = 10 * time.Second

// workSeen is the running work, as one Plan or Run last observed it.
type workSeen struct {
	looks atomic.Int64 // that have begun
	mu    sync.Mutex
	whole bool // the last one was not cut short
	work  *consent.Work
	err   error
}

// Work observes the running work by node; nil if there is no cluster yet. Steps that ask while one
// observation runs share the next one: what was seen before a step asked may be over.
func (ms *Members) Work(ctx context.Context) (*consent.Work, error) {
	seen := run.Of[workSeen](ctx)
	begun := seen.looks.Load()
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.looks.Load() > begun && seen.whole {
		return seen.work, seen.err
	}
	seen.looks.Add(1)
	seen.work, seen.err = ms.lookAtWork(ctx)
	seen.whole = ctx.Err() == nil
	return seen.work, seen.err
}

func (ms *Members) lookAtWork(ctx context.Context) (work *consent.Work, err error) {
	limit := run.Limit(ms.Spec, costTime)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	client, err := ms.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return nil, nil
	}
	if err == nil {
		work, err = consent.Look(ctx, client)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return work, err
}

// Users names the users whose work ends if a node goes down, or says why they are unknown.
func (ms *Members) Users(ctx context.Context, of func(*consent.Work) []converge.Loss) []converge.Loss {
	w, err := ms.Work(ctx)
	switch {
	case err != nil:
		return []converge.Loss{{Unknown: true, Text: "cannot find out whose work ends: " + printable.FirstLine(err.Error())}}
	case w == nil:
		return nil
	}
	return of(w)
}

// thing identifies the VM that a node is now. An external machine is known by its name alone.
func (ms *Members) thing(ctx context.Context, name string) string {
	if n, ok := ms.Spec.Node(name); !ms.VMs || ok && n.External {
		return ""
	}
	vm, err := ms.Nodes.Proxmox.VM(ctx, names.Tag(ms.Spec), name)
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
func (ms *Members) Stops(ctx context.Context, why string, names ...string) []converge.Cost {
	var out []converge.Cost
	for _, name := range names {
		cost := converge.Cost{Machine: name, Sort: SortNode, Thing: ms.thing(ctx, name), Kind: converge.Stops, Why: why, Away: away}
		of := func(w *consent.Work) []converge.Loss { return w.On(name) }
		if ms.Nodes.FileServer(name) { // mounts are hard, so it is not drained
			of = func(w *consent.Work) []converge.Loss { return w.Notebooks("") }
			cost.Why += "; clients of its volumes wait until it is back"
		}
		cost.Users = ms.Users(ctx, of)
		out = append(out, cost)
	}
	return out
}
