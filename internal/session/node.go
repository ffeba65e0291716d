package session

import (
	"context"
	"errors"
	"strings"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
)

// NodeDrain empties a node.
func NodeDrain(s *Session, ctx context.Context, f NodeFlags) error {
	build := func(context.Context) (*converge.Graph, error) { return s.Cluster.NodeDrain(f.Node) }
	return nodeVerb(s, ctx, f, build, Change{Question: "Drain this node?", Nothing: "NODE is drained already.", Done: "NODE is drained and accepts no pods until homelab node:uncordon -node=NODE."})
}

// NodeUncordon lets pods onto a node again.
func NodeUncordon(s *Session, ctx context.Context, f NodeFlags) error {
	build := func(context.Context) (*converge.Graph, error) { return s.Cluster.NodeUncordon(f.Node) }
	return nodeVerb(s, ctx, f, build, Change{Nothing: "NODE accepts pods already.", Done: "NODE accepts pods again."})
}

// NodeCycle drains a node and switches its VM off and on.
func NodeCycle(s *Session, ctx context.Context, f NodeCycleFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeCycle(ctx, f.Node, f.Force)
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, Change{Question: "Drain this node and switch its machine off and on?", Done: "NODE was off and is back."})
}

// NodeUpgrade upgrades the packages of machines.
func NodeUpgrade(s *Session, ctx context.Context, f NodeUpgradeFlags) error {
	build := func(context.Context) (*converge.Graph, error) { return s.Cluster.NodeUpgrade(f.Node) }
	c := Change{Question: "Upgrade these packages?", Nothing: "NODE has the newest packages.", Done: "NODE has the newest packages.", show: true}
	if f.Node == "" {
		c.Nothing, c.Done = "All nodes have the newest packages.", "All nodes have the newest packages."
		for _, n := range s.Spec.Nodes {
			if !n.OnProxmox() {
				s.Printf("%s is not a VM of Proxmox VE, so it keeps its packages: homelab node:drain -node=%[1]s, upgrade it there, homelab node:uncordon -node=%[1]s", n.Name)
			}
		}
	}
	return nodeVerb(s, ctx, NodeFlags(f), build, c)
}

// NodeReplace recreates a node's machine.
func NodeReplace(s *Session, ctx context.Context, f NodeReplaceFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeReplace(ctx, f.Node, f.Force)
	}
	words := Change{Question: "Destroy this machine with its disks and create it again?", Done: "NODE is a new machine."}
	if n, _ := s.Spec.Node(f.Node); n.External {
		words = Change{Question: "Drain this node, remove K3s and its data from its machine, and let it join again?", Done: "NODE has joined again."}
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, words)
}

// NodeRemove removes an external machine from the cluster.
func NodeRemove(s *Session, ctx context.Context, f NodeRemoveFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeRemove(ctx, f.Node, f.Force)
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, Change{
		Question: "Drain this node and remove K3s and its data from its machine?", Nothing: "NODE is not in the cluster.",
		Done: "NODE was removed from the cluster. Remove it from the file, or the next cluster:up lets it join again.",
	})
}

// nodeMark is the placeholder of the node's name in a verb's messages.
const nodeMark = "NODE"

// nodeVerb shows what a verb would do, asks about its costs, and does it.
func nodeVerb(s *Session, ctx context.Context, f NodeFlags, build builder, c Change) error {
	c.Nothing, c.Done = strings.ReplaceAll(c.Nothing, nodeMark, f.Node), strings.ReplaceAll(c.Done, nodeMark, f.Node)
	c.ChangeFlags, c.Name = f.ChangeFlags, f.Node
	return s.Change(ctx, build, c)
}

// verbError adds the exit code to an error.
func verbError(err error) error {
	var unknown *cluster.UnknownNodeError
	var no *cluster.RefusedError
	switch {
	case errors.As(err, &unknown):
		return exitError(invalid, err)
	case errors.As(err, &no):
		return exitError(refused, err)
	}
	return err
}
