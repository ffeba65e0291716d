package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Node is one machine of the cluster.
type Node mg.Namespace

// Drain empties a node: no new pods come, and those that are there go elsewhere. Flags: -node=NAME -spec=FILE -yes -json -nowait -timeout=10m.
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

// Cycle drains a node and switches its VM off and on, which resets its GPUs as a reboot does not. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=30m.
func (Node) Cycle(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeCycle)
}

// Replace makes a node's machine anew: drained, out of Kubernetes and etcd, destroyed with its disks, cloned, let in again. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=1h.
func (Node) Replace(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeReplace)
}

// Remove takes an external machine out of the cluster: drained, K3s taken off, out of Kubernetes; the machine goes on. Flags: -node=NAME -spec=FILE -yes -force -json -nowait -timeout=30m.
func (Node) Remove(ctx context.Context, node, spec *string, yes, force, json, nowait *bool, timeout *time.Duration) error {
	o := options(spec, json, yes, timeout)
	o.Node, o.Force, o.NoWait = value(node), value(force), value(nowait)
	return with(ctx, o, (*session.Session).NodeRemove)
}
