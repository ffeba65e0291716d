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
	return nodeVerb(s, ctx, f, build, verbWords{question: "Drain this node?", nothing: "NODE is drained already.", done: "NODE is drained and accepts no pods until homelab node:uncordon -node=NODE."})
}

// NodeUncordon lets pods onto a node again.
func NodeUncordon(s *Session, ctx context.Context, f NodeFlags) error {
	build := func(context.Context) (*converge.Graph, error) { return s.Cluster.NodeUncordon(f.Node) }
	return nodeVerb(s, ctx, f, build, verbWords{nothing: "NODE accepts pods already.", done: "NODE accepts pods again."})
}

// NodeCycle drains a node and switches its VM off and on.
func NodeCycle(s *Session, ctx context.Context, f NodeCycleFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeCycle(ctx, f.Node, f.Force)
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, verbWords{question: "Drain this node and switch its machine off and on?", done: "NODE was off and is back."})
}

// NodeReplace recreates a node's machine.
func NodeReplace(s *Session, ctx context.Context, f NodeReplaceFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeReplace(ctx, f.Node, f.Force)
	}
	words := verbWords{question: "Destroy this machine with its disks and create it again?", done: "NODE is a new machine."}
	if n, _ := s.Spec.Node(f.Node); n.External {
		words = verbWords{question: "Drain this node, remove K3s and its data from its machine, and let it join again?", done: "NODE has joined again."}
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, words)
}

// NodeRemove removes an external machine from the cluster.
func NodeRemove(s *Session, ctx context.Context, f NodeRemoveFlags) error {
	build := func(ctx context.Context) (*converge.Graph, error) {
		return s.Cluster.NodeRemove(ctx, f.Node, f.Force)
	}
	return nodeVerb(s, ctx, f.NodeFlags, build, verbWords{
		question: "Drain this node and remove K3s and its data from its machine?", nothing: "NODE is not in the cluster.",
		done: "NODE was removed from the cluster. Remove it from the file, or the next cluster:up lets it join again.",
	})
}

// nodeMark is the placeholder of the node's name in a verb's messages.
const nodeMark = "NODE"

// verbWords are a verb's messages.
type verbWords struct{ question, nothing, done string }

// verb shows what a verb would do, asks about its costs, and does it.
func nodeVerb(s *Session, ctx context.Context, f NodeFlags, build builder, words verbWords) error {
	of := func(words string) string { return strings.ReplaceAll(words, nodeMark, f.Node) }
	say := spoken{nothing: of(words.nothing), done: of(words.done), ChangeFlags: f.ChangeFlags, wish: wish{question: words.question, name: f.Node}}
	defer s.keep()
	return verbError(s.confirmed(ctx, build, say))
}

// verbError adds the exit code to an error.
func verbError(err error) error {
	var unknown *cluster.UnknownNodeError
	var no *cluster.RefusedError
	switch {
	case errors.As(err, &unknown):
		return failed(invalid, err)
	case errors.As(err, &no):
		return failed(refused, err)
	}
	return err
}
