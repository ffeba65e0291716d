package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
	"github.com/cps-gpu/homelab/kube"
)

// RefusedError is a request that was refused because it would lose data or could not work.
// Nothing was changed.
type RefusedError struct {
	Node   string
	Reason string
}

// Error returns what is refused and why.
func (e *RefusedError) Error() string { return e.Node + ": " + e.Reason }

// UnknownNodeError means that the file does not have this node.
type UnknownNodeError struct {
	Name  string
	Known []string
}

// Error returns the name, and the names that the user may have meant.
func (e *UnknownNodeError) Error() string {
	if e.Name == "" {
		return "which node? write -node=NAME; the file has " + strings.Join(e.Known, ", ")
	}
	if near := suggest.Nearest(e.Name, e.Known); near != "" {
		return fmt.Sprintf("the file has no node %q: did you mean %s?", e.Name, near)
	}
	return fmt.Sprintf("the file has no node %q: it has %s", e.Name, strings.Join(e.Known, ", "))
}

func (c *site) nodeNamed(name string) (spec.Node, error) {
	n, ok := c.spec.Node(name)
	if !ok && c.spec.HasMachine(name) {
		return n, &RefusedError{name, "it is not a node of Kubernetes, so there is nothing to drain or to replace there"}
	}
	if !ok {
		unknown := &UnknownNodeError{Name: name}
		for _, n := range c.spec.Nodes {
			unknown.Known = append(unknown.Known, n.Name)
		}
		return n, unknown
	}
	return n, nil
}

// machineOf returns a node whose machine homelab made, for a verb that needs one.
func (c *site) machineOf(name, verb string) (spec.Node, error) {
	n, err := c.nodeNamed(name)
	switch {
	case err == nil && n.OnHarvester:
		err = &RefusedError{name, "the machine is a VM of Harvester, so homelab does not " + verb + ": do that there; node:drain, node:uncordon and node:replace work"}
	case err == nil && n.External:
		err = &RefusedError{name, "the machine is external, so homelab does not " + verb + ": do that there; node:drain, node:uncordon, node:replace and node:remove work"}
	}
	return n, err
}

// checkMayStop refuses to stop a server that the others need for a quorum.
func (c *site) checkMayStop(ctx context.Context, n spec.Node) error {
	if n.Role != spec.Server || len(c.spec.Servers()) == 1 {
		return nil // the API of a lone server is down for a while, and comes back with it
	}
	nodes, err := c.kubeNodes(ctx)
	if errors.Is(err, members.ErrNoServer) {
		return nil // there is nothing to lose
	}
	if err != nil {
		return err
	}
	return quorumWithout(n.Name, nodes, false)
}

// moveTime is how long the API's address may take to move from a server that is gone to another:
// kube-vip's lease, and the time until open connections notice.
const moveTime = time.Minute

// kubeNodes returns Kubernetes' nodes. If the API does not answer, it waits for another server to
// take over the API's address. An earlier run may have been interrupted after it had switched
// off the server that had the address.
func (c *site) kubeNodes(ctx context.Context) (nodes []kube.Node, err error) {
	look := func() error {
		client, err := c.members.Kube(ctx)
		if err == nil {
			nodes, err = client.Nodes(ctx)
		}
		return err
	}
	if err = look(); err == nil || errors.Is(err, members.ErrNoServer) || ctx.Err() != nil {
		return nodes, err
	}
	if c.members.APIBack(ctx, moveTime) != nil {
		return nil, err
	}
	err = look()
	return nodes, err
}

// quorumWithout refuses to stop or remove a server if the others have no quorum without it: etcd
// needs more than half of its members.
func quorumWithout(name string, nodes []kube.Node, forever bool) error {
	var servers, ready int
	var away []string
	for _, n := range nodes {
		if n.Role != string(spec.Server) {
			continue
		}
		servers++
		switch {
		case n.Name == name:
		case n.Ready:
			ready++
		default:
			away = append(away, n.Name)
		}
	}
	have := slices.ContainsFunc(nodes, func(n kube.Node) bool { return n.Name == name && n.Role == string(spec.Server) })
	left := servers
	if have && forever { // the etcd member is removed first, then the machine
		left--
	}
	if !have || ready > left/2 {
		return nil
	}
	reason := fmt.Sprintf("without it %d of %d servers would be left, and etcd needs more than half", ready, servers)
	if len(away) > 0 {
		reason += ": bring " + strings.Join(away, " and ") + " back first"
	}
	return &RefusedError{name, reason + "; -force does it anyway, and the API is down as long as the server is"}
}
