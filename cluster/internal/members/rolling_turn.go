package members

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/cluster/converge/wait"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
)

// TurnOf is turn for a node that stays up while others are down. Those may need a turn to
// come back, so it waits for them before it takes its own.
func (ms *Members) TurnOf(ctx context.Context, n spec.Node, away awayCheck) (done func(), err error) {
	for {
		if done, err = ms.turn(ctx, n.Name); err != nil {
			return nil, err
		}
		others, err := away(ctx, n)
		if err == nil && others == "" {
			return done, nil
		}
		done()
		if err == nil {
			err = ms.waitAway(ctx, n, away)
		}
		if err != nil {
			return nil, err
		}
	}
}

// hasTurn is the key of a context that has the turn: what is done in it needs no other.
type hasTurn struct{}

// turn waits until no other node is down on purpose, and keeps other nodes up until done is
// called. After a node did not recover, no other node goes down.
func (ms *Members) turn(ctx context.Context, who string) (done func(), err error) {
	if ctx.Value(hasTurn{}) != nil { // a step within another one's turn
		return func() {}, nil
	}
	progress.Say(ctx, "waiting for another node to come back")
	select {
	case ms.restarting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { <-ms.restarting }
	if err := run.Of[Unhealthy](ctx).Refuses(who); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// NoteUnhealthy records nodes that failed while they went down or came back, and removes the
// record of a node that is healthy after a retry. The caller must have the turn.
func (ms *Members) NoteUnhealthy(ctx context.Context, err error, nodes ...string) {
	u := run.Of[Unhealthy](ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range nodes {
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
}

// Unhealthy are nodes that went down in this run and did not come back.
type Unhealthy struct {
	mu    sync.Mutex
	nodes map[string]bool
}

// Refuses returns an error if another node did not recover. A node that did not recover may
// retry.
func (u *Unhealthy) Refuses(nodes ...string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, who := range nodes {
		if len(u.nodes) > 0 && !u.nodes[who] {
			return fmt.Errorf("%s stays up, because %s did not become healthy: fix that first, then run it again",
				who, strings.Join(slices.Sorted(maps.Keys(u.nodes)), " and "))
		}
	}
	return nil
}

// onlyServer reports whether a node is the only server.
func (ms *Members) onlyServer(n spec.Node) bool {
	return n.Role == spec.Server && len(ms.Spec.Servers()) == 1
}

// awayCheck names the nodes that are down and must be up before a node goes down, "" for none.
type awayCheck = func(ctx context.Context, n spec.Node) (others string, err error)

// othersAway names, for a healthy agent, every other node of the file that is not Ready or
// is cordoned: a change that breaks nodes must break only one, no matter how often it is
// retried.
func (ms *Members) othersAway(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Agent {
		return ms.ServersAway(ctx, n)
	}
	return ms.Away(ctx, ms.Missing, n.Name)
}

// Missing reports whether a node of the file is not Ready, or is cordoned.
func (ms *Members) Missing(n kube.Node) bool {
	_, ours := ms.Spec.Node(n.Name)
	return ours && (!n.Ready || n.Cordoned)
}

// ServersAway names, for a server, the other servers of the cluster that are not Ready: etcd
// keeps its quorum with one member down, but not with two.
func (ms *Members) ServersAway(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Server || ms.onlyServer(n) {
		return "", nil
	}
	return ms.Away(ctx, func(other kube.Node) bool {
		return other.Name != n.Name && other.Role == string(spec.Server) && !other.Ready
	})
}

// Away lists the nodes for which is returns true, except those in going. It lists none if is
// is true for every node in going, or if the cluster knows none of them: taking them down then
// makes nothing worse.
func (ms *Members) Away(ctx context.Context, is func(kube.Node) bool, going ...string) (string, error) {
	client, err := ms.Kube(ctx)
	if errors.Is(err, ErrUnformed) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	missed := len(going) == 0
	for _, n := range nodes {
		switch {
		case slices.Contains(going, n.Name):
			missed = missed || !is(n)
		case !is(n):
		case n.Ready:
			out = append(out, n.Name+": cordoned")
		default:
			out = append(out, n.Name+": "+n.Reason)
		}
	}
	if !missed {
		return "", nil
	}
	return strings.Join(out, ", "), nil
}

// waitAway waits until no other node is down.
func (ms *Members) waitAway(ctx context.Context, n spec.Node, away awayCheck) error {
	rule := wait.Rule{
		What: n.Name + " does not go down while another node is down", Limit: nodes.BootTime + ReadyTime,
		Late: n.Name + " stays up: not every other node was healthy",
	}
	return run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		if err := run.Of[Unhealthy](ctx).Refuses(n.Name); err != nil {
			return "", wait.Permanent(err)
		}
		return away(ctx, n)
	})
}
