package targets

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/session"
)

// Node is one machine of the cluster.
type Node mg.Namespace

// Drain cordons a node and evicts its pods.
func (Node) Drain(ctx context.Context,
	node *string, // NAME: the node
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), (*session.Session).NodeDrain, session.NodeFlags{
		ChangeFlags: changes(yes, nowait), Node: value(node),
	})
}

// Uncordon lets pods onto a node again.
func (Node) Uncordon(ctx context.Context,
	node *string, // NAME: the node
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
) error {
	return withFlags(ctx, options(spec, json, nil), (*session.Session).NodeUncordon, session.NodeFlags{
		ChangeFlags: changes(nil, nowait), Node: value(node),
	})
}

// Cycle drains a node and switches its VM off and on, which resets its GPUs; a reboot does not.
func (Node) Cycle(ctx context.Context,
	node *string, // NAME: the node
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	force *bool, // also a server that the others need
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), (*session.Session).NodeCycle, session.NodeCycleFlags{
		NodeFlags: session.NodeFlags{ChangeFlags: changes(yes, nowait), Node: value(node)}, Force: value(force),
	})
}

// Replace recreates a node's machine: it drains the node, deletes it from Kubernetes and etcd, destroys its VM with all disks, clones a new one and lets it join.
func (Node) Replace(ctx context.Context,
	node *string, // NAME: the node
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	force *bool, // destroy data too, and also a server that the others need
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), (*session.Session).NodeReplace, session.NodeReplaceFlags{
		NodeFlags: session.NodeFlags{ChangeFlags: changes(yes, nowait), Node: value(node)}, Force: value(force),
	})
}

// Remove removes an external machine from the cluster: it drains the node, removes K3s and deletes the node; the machine keeps running.
func (Node) Remove(ctx context.Context,
	node *string, // NAME: the node
	spec *string, // FILE: the cluster's file; default: cluster.yaml
	yes *bool, // do not ask: agree to everything that is shown
	force *bool, // also a server that the others need
	json *bool, // print data and events as lines of JSON
	nowait *bool, // end with exit code 4 if another run changes the same cluster or host, instead of waiting
	timeout *time.Duration, // DURATION: stop after this time, e.g. 1h
) error {
	return withFlags(ctx, options(spec, json, timeout), (*session.Session).NodeRemove, session.NodeRemoveFlags{
		NodeFlags: session.NodeFlags{ChangeFlags: changes(yes, nowait), Node: value(node)}, Force: value(force),
	})
}
