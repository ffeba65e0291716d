package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// turnWhenHealthy is turn for a node that stays up while others are down. Those may need a turn to
// come back, so it waits for them before it takes its own.
func (ts *Turns) turnWhenHealthy(ctx context.Context, n spec.Node, away unhealthyFunc) (done func(), err error) {
	for {
		if done, err = ts.acquireTurn(ctx, n.Name); err != nil {
			return nil, err
		}
		others, err := away(ctx, n)
		if err == nil && others == "" {
			return done, nil
		}
		done()
		if err == nil {
			err = ts.waitOthersHealthy(ctx, n, away)
		}
		if err != nil {
			return nil, err
		}
	}
}

// turnHolder are held by the one node that goes down and comes up again, in whatever run.
type turnHolder struct {
	free chan struct{} // holds a token while a node has the turn
	node atomic.Value  // its name; "": none
}

// isHeldBy reports whether a node has the turn.
func (t *turnHolder) isHeldBy(node string) bool { return t.node.Load() == node }

// acquireTurn waits until no other node is down on purpose, and keeps other nodes up until done is
// called. After a node did not recover, no other node goes down. What is done to a node in its
// turn needs no other.
func (ts *Turns) acquireTurn(ctx context.Context, who string) (done func(), err error) {
	if ts.turns.isHeldBy(who) {
		return func() {}, nil
	}
	converge.Progressf(ctx, "waiting for another node to come back")
	select {
	case ts.turns.free <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ts.turns.node.Store(who)
	done = func() {
		ts.turns.node.Store("")
		<-ts.turns.free
	}
	if err := ts.CheckNoneBroken(who); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// noteUnhealthy records a node that failed while it went down or came back, and removes the record of
// one that is healthy after a retry. The caller must have the turn.
func (ts *Turns) noteUnhealthy(ctx context.Context, err error, name string) {
	u := &ts.memory.Load().unhealthy
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		delete(u.nodes, name)
	case ctx.Err() == nil:
		if u.nodes == nil {
			u.nodes = map[string]bool{}
		}
		u.nodes[name] = true
	}
}

// unhealthy are nodes that went down in this run and did not come back.
type unhealthy struct {
	mu    sync.Mutex
	nodes map[string]bool
}

// CheckNoneBroken returns an error if another node did not recover. A node that did not recover may
// retry.
func (ks *Kubernetes) CheckNoneBroken(name string) error {
	u := &ks.memory.Load().unhealthy
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.nodes) == 0 || u.nodes[name] {
		return nil
	}
	return fmt.Errorf("%s stays up, because %s did not become healthy: fix that first, then run it again",
		name, strings.Join(slices.Sorted(maps.Keys(u.nodes)), " and "))
}

// waitOthersHealthy waits until no other node is down.
func (ts *Turns) waitOthersHealthy(ctx context.Context, n spec.Node, away unhealthyFunc) error {
	rule := converge.WaitRule{
		What: n.Name + " does not go down while another node is down", Limit: nodes.BootTime + ReadyTime,
		TimeoutText: n.Name + " stays up: not every other node was healthy",
	}
	return run.Until(ctx, ts.Spec, rule, func(ctx context.Context) (string, error) {
		if err := ts.CheckNoneBroken(n.Name); err != nil {
			return "", converge.Permanent(err)
		}
		return away(ctx, n)
	})
}
