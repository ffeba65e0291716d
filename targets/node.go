package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Node is one machine of the cluster.
type Node mg.Namespace

// Drain cordons a node and evicts its pods. Flags: -node=NAME -spec=FILE -yes -json -nowait -timeout=10m.
func (Node) Drain(ctx context.Context, node, spec *string, yes, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.NoWait = value(node), value(nowait)
	return with(ctx, o, (*session.Session).NodeDrain)
}

// Uncordon lets pods onto a node again. Flags: -node=NAME -spec=FILE -json -nowait.
func (Node) Uncordon(ctx context.Context, node, spec *string, json, nowait *bool) error {
	o := options(spec, json, nil, nil)
	o.Node, o.NoWait = value(node), value(nowait)
	return with(ctx, o, (*session.Session).NodeUncordon)
}

// Cycle drains a node and switches its VM off and on, which resets its GPUs; a reboot does not. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=30m.
func (Node) Cycle(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeCycle)
}

// Replace recreates a node's machine: it drains the node, deletes it from Kubernetes and etcd, destroys its VM with all disks, clones a new one and lets it join. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=1h.
func (Node) Replace(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeReplace)
}

// Remove removes an external machine from the cluster: it drains the node, removes K3s and deletes the node; the machine keeps running. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=30m.
func (Node) Remove(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeRemove)
}
