package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/spec"
)

// turnOf is turn for a node that stays up while others are away. Those may need a turn to
// come back, so it waits for them outside of its own.
func (c *Cluster) turnOf(ctx context.Context, n spec.Node, away awayCheck) (done func(), err error) {
	for {
		if done, err = c.turn(ctx, n.Name); err != nil {
			return nil, err
		}
		others, err := away(ctx, n)
		if err == nil && others == "" {
			return done, nil
		}
		done()
		if err == nil {
			err = c.waitAway(ctx, n, away)
		}
		if err != nil {
			return nil, err
		}
	}
}

// turn waits until no other node is down on purpose, and keeps others up until done is
// called. After a node that did not recover, no other node goes down.
func (c *Cluster) turn(ctx context.Context, who string) (done func(), err error) {
	progress.Say(ctx, "waiting for another node to come back")
	select {
	case c.restarting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { <-c.restarting }
	if err := run.Of[unhealthy](ctx).refuses(who); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// noteUnhealthy records nodes that failed while they were taken down or brought back, and
// forgets a node that is healthy after another try. The caller must have the turn.
func (c *Cluster) noteUnhealthy(ctx context.Context, err error, nodes ...string) {
	u := run.Of[unhealthy](ctx)
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

// unhealthy are nodes that did not come back from being taken down in this run.
type unhealthy struct {
	mu    sync.Mutex
	nodes map[string]bool
}

// refuses returns an error if another node did not recover. Such a node itself may try
// again.
func (u *unhealthy) refuses(nodes ...string) error {
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
func (c *Cluster) onlyServer(n spec.Node) bool {
	return n.Role == spec.Server && len(c.spec.Servers()) == 1
}

// awayCheck names the nodes that are down and must be up before a node goes down, "" for none.
type awayCheck = func(ctx context.Context, n spec.Node) (others string, err error)

// othersAway names, for a healthy agent, every other node of the file that is not Ready or
// is cordoned: a change that breaks nodes must break only one, however often it is
// tried.
func (c *Cluster) othersAway(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Agent {
		return c.serversAway(ctx, n)
	}
	return c.away(ctx, c.missing, n.Name)
}

// missing reports whether a node of the file is not Ready or cordoned.
func (c *Cluster) missing(n kube.Node) bool {
	_, ours := c.spec.Node(n.Name)
	return ours && (!n.Ready || n.Cordoned)
}

// serversAway counts, for a server, the others that the cluster has and that are not
// Ready: etcd bears that one is away, not two.
func (c *Cluster) serversAway(ctx context.Context, n spec.Node) (string, error) {
	if n.Role != spec.Server || c.onlyServer(n) {
		return "", nil
	}
	return c.away(ctx, func(other kube.Node) bool {
		return other.Name != n.Name && other.Role == string(spec.Server) && !other.Ready
	})
}

// away lists the nodes that are, but for those that are to go. Where all of those are away
// themselves, or nobody knows them, it is none: it makes it no worse.
func (c *Cluster) away(ctx context.Context, is func(kube.Node) bool, going ...string) (string, error) {
	client, err := c.kube(ctx)
	if errors.Is(err, errUnformed) {
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
func (c *Cluster) waitAway(ctx context.Context, n spec.Node, away awayCheck) error {
	rule := wait.Rule{
		What: n.Name + " does not go down while another node is down", Limit: nodes.BootTime + readyTime,
		Late: n.Name + " stays up: not every other node was healthy",
	}
	return run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		if err := run.Of[unhealthy](ctx).refuses(n.Name); err != nil {
			return "", wait.Permanent(err)
		}
		return away(ctx, n)
	})
}
