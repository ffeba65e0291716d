package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/converge"
	"github.com/cps-gpu/homelab/cluster/converge/progress"
	"github.com/cps-gpu/homelab/cluster/converge/wait"
	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/placement"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/proxmox"
)

// waitReleased waits until other nodes have released cards that they no longer need and this
// node gets. Each releases its cards in a turn of its own, so two nodes do not go down
// together. It returns the allotment after that.
func (c *Cluster) waitReleased(ctx context.Context, n spec.Node, a *placement.Allotment) (*placement.Allotment, error) {
	waits := func(ctx context.Context) (others []string, err error) { // none: this is an exchange, or the cards are released
		together, err := c.exchanges(ctx, n, a)
		if together {
			return nil, err
		}
		return a.Holders(n.Name), err
	}
	others, err := waits(ctx)
	if err != nil || len(others) == 0 {
		return a, err
	}
	rule := wait.Rule{
		What: n.Name + " gets cards that another node releases", Limit: time.Duration(len(others)) * (nodes.BootTime + members.ReadyTime),
		Late: n.Name + " did not get its cards",
	}
	err = run.Until(ctx, c.spec, rule, func(ctx context.Context) (string, error) {
		err := run.Of[members.Unhealthy](ctx).Refuses(n.Name)
		if err != nil {
			return "", wait.Permanent(err)
		}
		if a, err = c.allot(ctx, n.Host); err != nil {
			return "", err
		}
		others, err := waits(ctx)
		if err != nil || len(others) == 0 {
			return "", err
		}
		return strings.Join(others, " and ") + " still has them", nil
	})
	return a, err
}

// exchanges reports whether a node and the nodes that have its cards go down together. They do
// if one of them gets other cards in return, or if the node itself is unhealthy: no other node
// goes down alone while it is.
func (c *Cluster) exchanges(ctx context.Context, n spec.Node, a *placement.Allotment) (bool, error) {
	others := a.Holders(n.Name)
	if len(others) == 0 || slices.ContainsFunc(others, func(other string) bool { return !a.Shrinks(other) }) {
		return len(others) > 0, nil
	}
	ill, err := c.members.Away(ctx, func(k kube.Node) bool { return k.Name == n.Name && c.members.Missing(k) })
	return ill != "", err
}

// cardsFree refuses to recreate a node while other nodes still have its cards: only cluster:up
// moves cards.
func (c *Cluster) cardsFree(ctx context.Context, n spec.Node) error {
	if n.GPUs.Count == 0 {
		return nil
	}
	a, err := c.allot(ctx, n.Host)
	if err != nil {
		return err
	}
	if others := a.Holders(n.Name); len(others) > 0 {
		return fmt.Errorf("%s needs cards that %s still has: run cluster:up first, which moves them", n.Name, strings.Join(others, " and "))
	}
	return nil
}

// exchange moves cards between nodes that hold each other's. A running VM holds its cards
// until it is off, so all nodes go down before the first mapping changes, and come up after
// the last one has. In between, no VM can start with a card that another still holds. If it is
// interrupted, nodes stay off and mappings are incomplete; the next run finds both.
func (c *Cluster) exchange(ctx context.Context, n spec.Node, others []string) error {
	done, err := c.members.TurnOf(ctx, n, c.awayFromExchange)
	if err != nil {
		return err
	}
	defer done()
	// Another step that waited before this one may have done it already.
	a, nodes, err := c.partners(ctx, n)
	if err != nil {
		return err
	}
	if c.diffMapping(n, a).Empty() {
		return nil
	}
	servers, names := []string{}, []string{}
	for _, node := range nodes {
		names = append(names, node.Name)
		if node.Role == spec.Server {
			servers = append(servers, node.Name)
		}
		if err := a.Shares[node.Name].Err; err != nil {
			return err
		}
	}
	slices.Sort(servers)
	if len(servers) > 1 {
		return converge.Permanent(fmt.Errorf("%s would exchange their GPUs and be down at the same time, which is not allowed for servers\n"+
			"  remove gpus from %s in the file, run cluster:up, add them again and run it again", strings.Join(servers, " and "), servers[0]))
	}
	if err := run.Of[members.Unhealthy](ctx).Refuses(names...); err != nil {
		return err
	}
	if err := converge.Confirm(ctx); err != nil {
		return err
	}
	progress.Say(ctx, "%s exchange GPUs: they go down together", strings.Join(append([]string{n.Name}, others...), ", "))
	return c.downTogether(ctx, nodes, func(ctx context.Context) error {
		for _, node := range nodes {
			vm, err := c.holding(ctx, node)
			if err != nil {
				return err
			}
			if err := c.recard(ctx, vm, c.mapping(node, a)); err != nil {
				return err
			}
		}
		return nil
	})
}

// partners are the nodes that go down together for a node's cards, starting with that node.
func (c *Cluster) partners(ctx context.Context, n spec.Node) (*placement.Allotment, []spec.Node, error) {
	a, err := c.allot(ctx, n.Host)
	if err != nil {
		return nil, nil, err
	}
	nodes := []spec.Node{n}
	for _, name := range a.Holders(n.Name) {
		other, _ := c.spec.Node(name)
		nodes = append(nodes, other)
	}
	return a, nodes, nil
}

// awayFromExchange is othersAway for nodes that go down together.
func (c *Cluster) awayFromExchange(ctx context.Context, n spec.Node) (string, error) {
	_, nodes, err := c.partners(ctx, n)
	if err != nil {
		return "", err
	}
	agents, names := false, []string{}
	for _, node := range nodes {
		names = append(names, node.Name)
		if agents = agents || node.Role == spec.Agent; node.Role != spec.Server {
			continue
		}
		vm, err := c.holding(ctx, node)
		if err != nil {
			return "", err
		}
		if vm == nil || !vm.Running { // this interrupts nothing
			continue
		}
		if others, err := c.members.ServersAway(ctx, node); others != "" || err != nil {
			return others, err
		}
	}
	if !agents {
		return "", nil
	}
	return c.members.Away(ctx, c.members.Missing, names...)
}

// downTogether drains nodes, switches those off that hold cards, calls do, and starts them
// again. The caller must have the turn.
func (c *Cluster) downTogether(ctx context.Context, nodes []spec.Node, do func(context.Context) error) (err error) {
	var down []*proxmox.VM
	var back []func(context.Context) error
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	defer func() { c.members.NoteUnhealthy(ctx, err, names...) }()
	for _, node := range nodes {
		vm, err := c.holding(ctx, node)
		if err != nil {
			return err
		}
		if vm == nil || !vm.Running {
			continue
		}
		was, err := c.members.DrainNode(ctx, node)
		if err != nil {
			return err
		}
		down = append(down, vm)
		if was != nil {
			back = append(back, func(ctx context.Context) error { return c.members.WaitRecovered(ctx, node, was) })
		}
	}
	for i, vm := range down {
		if down[i], err = c.shutDown(ctx, vm); err != nil {
			return err
		}
	}
	if err := do(ctx); err != nil {
		return err
	}
	for _, vm := range down {
		if err := c.Proxmox.Start(ctx, vm); err != nil {
			return err
		}
	}
	for _, wait := range back {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
