package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// RefusedError is something that is not done, since it would lose what cannot be had
// again, or could not work. Nothing was changed.
type RefusedError struct {
	Node   string
	Reason string
}

// Error returns what is refused and why.
func (e *RefusedError) Error() string { return e.Node + ": " + e.Reason }

// UnknownNodeError is a node that the file does not have.
type UnknownNodeError struct {
	Name  string
	Known []string
}

// Error returns the name and what may have been meant.
func (e *UnknownNodeError) Error() string {
	if e.Name == "" {
		return "which node? write -node=NAME; the file has " + strings.Join(e.Known, ", ")
	}
	if near := suggest.Nearest(e.Name, e.Known); near != "" {
		return fmt.Sprintf("the file has no node %q: did you mean %s?", e.Name, near)
	}
	return fmt.Sprintf("the file has no node %q: it has %s", e.Name, strings.Join(e.Known, ", "))
}

func (c *Cluster) named(name string) (Node, error) {
	n, ok := c.spec.Node(name)
	if !ok {
		unknown := &UnknownNodeError{Name: name}
		for _, n := range c.spec.Nodes {
			unknown.Known = append(unknown.Known, n.Name)
		}
		return n, unknown
	}
	return n, nil
}

// machineOf returns a node whose machine is ours, for a verb that needs one.
func (c *Cluster) machineOf(name, verb string) (Node, error) {
	n, err := c.named(name)
	if err == nil && n.External {
		err = &RefusedError{name, "the machine is external, so it is not ours to " + verb + ": do that there; node:drain, node:uncordon, node:replace and node:remove work"}
	}
	return n, err
}

// NodeDrain empties a node: no new pods come, and those that are there are evicted,
// as their disruption budgets allow. Pods of DaemonSets stay.
func (c *Cluster) NodeDrain(name string) (*converge.Graph, error) {
	n, err := c.named(name)
	if err != nil {
		return nil, err
	}
	g := c.graph()
	g.Add(c.drainStep(n))
	return g, nil
}

// drained is a node, nil when the cluster does not have it, and what keeps it busy.
type drained struct {
	node *kube.Node
	pods int
}

func (c *Cluster) drainStep(n Node) *converge.Resource[drained] {
	return &converge.Resource[drained]{
		ID: "drain/" + n.Name,
		Observe: func(ctx context.Context) (drained, error) {
			node, err := c.observeNode(ctx, n.Name)
			if err != nil {
				return drained{}, err
			}
			if node == nil {
				return drained{}, converge.Permanent(&RefusedError{n.Name, "the cluster has no such node: go tool mage cluster:up lets it join"})
			}
			client, err := c.kube(ctx)
			if err != nil {
				return drained{}, err
			}
			pods, err := client.Drainable(ctx, n.Name)
			return drained{node, pods}, err
		},
		Diff: func(have drained) drift.Diff {
			var d drift.Diff
			if !have.node.Cordoned {
				d = append(d, drift.Field{Path: "scheduling", Have: "allowed", Want: "cordoned", Effect: drift.Update})
			}
			if have.pods > 0 {
				d = append(d, drift.Field{Path: "pods", Have: fmt.Sprint(have.pods), Want: "evicted", Effect: drift.Update})
			}
			return d
		},
		Costs: c.costsOfDrain(n),
		Apply: func(ctx context.Context, _ drained) error {
			_, err := c.drain(ctx, n.Name)
			return err
		},
	}
}

// NodeUncordon lets new pods onto a node again.
func (c *Cluster) NodeUncordon(name string) (*converge.Graph, error) {
	n, err := c.named(name)
	if err != nil {
		return nil, err
	}
	g := c.graph()
	g.Add(&converge.Resource[*kube.Node]{
		ID: "uncordon/" + n.Name,
		Observe: func(ctx context.Context) (*kube.Node, error) {
			have, err := c.observeNode(ctx, n.Name)
			if err == nil && have == nil {
				err = converge.Permanent(&RefusedError{n.Name, "the cluster has no such node: go tool mage cluster:up lets it join"})
			}
			return have, err
		},
		Diff: func(have *kube.Node) drift.Diff {
			if !have.Cordoned {
				return nil
			}
			return drift.Diff{{Path: "scheduling", Have: "cordoned", Want: "allowed", Effect: drift.Update}}
		},
		Apply: func(ctx context.Context, _ *kube.Node) error {
			client, err := c.kube(ctx)
			if err != nil {
				return err
			}
			return client.Uncordon(ctx, n.Name)
		},
	})
	return g, nil
}

// NodeCycle drains a node, switches its VM off and on, and lets pods back when it is
// Ready with all its GPUs. A guest that only reboots never resets a passed-through
// card; one whose VM stops does.
func (c *Cluster) NodeCycle(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	return asked(ctx, c, func(ctx context.Context) (*converge.Graph, error) { return c.nodeCycleGraph(ctx, name, force) })
}

func (c *Cluster) nodeCycleGraph(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	n, err := c.machineOf(name, "switch off")
	if err != nil {
		return nil, err
	}
	vm, err := c.Proxmox.VM(ctx, c.spec.tag(), n.Name)
	if err != nil {
		return nil, err
	}
	if vm == nil {
		return nil, &RefusedError{name, "it has no VM: go tool mage cluster:up makes it"}
	}
	if !force {
		if err := c.mayStop(ctx, n); err != nil {
			return nil, err
		}
	}
	g := c.graph()
	g.Add(c.cycleStep(n, vm))
	return g, nil
}

// cycleStep is done once it has been done: nothing in the world tells a VM that was
// switched off and on from one that was not.
func (c *Cluster) cycleStep(n Node, vm *proxmox.VM) *converge.Resource[bool] {
	done := false
	return &converge.Resource[bool]{
		ID:      "cycle/" + n.Name,
		Observe: func(context.Context) (bool, error) { return done, nil },
		Diff: func(done bool) drift.Diff {
			if done {
				return nil
			}
			return drift.Diff{{Path: "power", Have: vm.String(), Want: "drained, off and on again", Effect: drift.Restart}}
		},
		Costs: c.costsOfCycle(n),
		Apply: func(ctx context.Context, _ bool) error {
			err := c.cycle(ctx, n, func(ctx context.Context) error {
				now, err := c.shutDown(ctx, vm)
				if err != nil {
					return err
				}
				return c.Proxmox.Start(ctx, now)
			})
			done = err == nil
			return err
		},
	}
}

// shutDown shuts a machine down that was seen earlier, once nothing else is at work on
// it, and returns it as it is then. Draining takes a while, and by now its VMID may be
// another machine's, which is left alone.
func (c *Cluster) shutDown(ctx context.Context, vm *proxmox.VM) (*proxmox.VM, error) {
	now, err := c.Proxmox.Idle(ctx, vm)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return nil, fmt.Errorf("%s is gone", vm)
	}
	return now, c.Proxmox.Shutdown(ctx, now)
}

// mayStop refuses to take a server away that the others need to agree.
func (c *Cluster) mayStop(ctx context.Context, n Node) error {
	if n.Role != Server || len(c.spec.Servers()) == 1 {
		return nil // a lone server's API is away for a while, and comes back with it
	}
	nodes, err := c.nodes(ctx)
	if errors.Is(err, errNoServer) {
		return nil // there is nothing to lose
	}
	if err != nil {
		return err
	}
	return quorumWithout(n.Name, nodes, false)
}

// moveTime is how long the API's address may take from a server that is gone to
// another: kube-vip's lease, and what dialled it meanwhile.
const moveTime = time.Minute

// nodes returns Kubernetes' nodes. Where the API does not answer, perhaps because an
// earlier run was cut off after it had switched off the server that had its address,
// it waits for another server to take that over.
func (c *Cluster) nodes(ctx context.Context) (nodes []kube.Node, err error) {
	look := func() error {
		client, err := c.kube(ctx)
		if err == nil {
			nodes, err = client.Nodes(ctx)
		}
		return err
	}
	if err = look(); err == nil || errors.Is(err, errNoServer) || ctx.Err() != nil {
		return nodes, err
	}
	if c.apiBack(ctx, moveTime) != nil {
		return nil, err
	}
	err = look()
	return nodes, err
}

// quorumWithout refuses to take a server away when those that are left cannot agree
// any more: etcd wants more than half of its members.
func quorumWithout(name string, nodes []kube.Node, forever bool) error {
	var members, ready int
	var away []string
	for _, n := range nodes {
		if n.Role != string(Server) {
			continue
		}
		members++
		switch {
		case n.Name == name:
		case n.Ready:
			ready++
		default:
			away = append(away, n.Name)
		}
	}
	have := slices.ContainsFunc(nodes, func(n kube.Node) bool { return n.Name == name && n.Role == string(Server) })
	left := members
	if have && forever { // first the member goes, then the machine
		left--
	}
	if !have || ready > left/2 {
		return nil
	}
	reason := fmt.Sprintf("without it %d of %d servers would be left, and etcd wants more than half", ready, members)
	if len(away) > 0 {
		reason += ": bring " + strings.Join(away, " and ") + " back first"
	}
	return &RefusedError{name, reason + "; -force does it all the same, and the API is away for as long as the server is"}
}
