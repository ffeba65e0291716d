package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/nodes"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/kube"
)

// forgetTime limits how long the Node of a machine that is gone may still look Ready, and how
// long etcd may take to remove its member.
const forgetTime = 2 * time.Minute

// deleteOldNode deletes the Node of an earlier machine of this name that was destroyed without
// telling Kubernetes. The cluster would refuse the new machine, since the password of the name and the
// etcd member belong to the old one; both are deleted with the Node. A Node that is Ready is
// in use, and is kept.
func (ms *Members) deleteOldNode(ctx context.Context, n spec.Node, have distribution.State) error {
	if have.Away { // a machine that restarts is not a new one
		member, err := Answer(ctx, ms.Kubernetes, n, nodes.BootTime)
		if err != nil {
			return err
		}
		have = member.State()
	}
	if have.Started || have.Running {
		return nil // the Node may be that of this machine
	}
	if err := ms.forget(ctx, n.Name); err != nil {
		return err
	}
	client, err := ms.Kube(ctx)
	if err != nil {
		return err
	}
	var over error // set if waiting does not help
	deleted := false
	rule := converge.WaitRule{
		What: "looking for the Node of an earlier " + n.Name, Limit: forgetTime,
		TimeoutText: "the Node of an earlier " + n.Name + " could not be read",
	}
	err = run.Until(ctx, ms.Spec, rule, func(ctx context.Context) (string, error) {
		old, err := client.Node(ctx, n.Name)
		switch over = nil; {
		case errors.Is(err, kube.ErrNotFound):
			return "", nil
		case err != nil: // the API's address may be moving from the old machine to another server
			return "", err
		case deleted:
			over = fmt.Errorf("the Node of the earlier machine %s was deleted, but still exists: check its finalizers with kubectl get node %s -o yaml", n.Name, printable.Word(n.Name))
			return "it was deleted, and is still there", nil
		case old.Ready:
			over = converge.Permanent(fmt.Errorf("the cluster has a Ready node %s on another machine, and %s was never started on this one: rename one of the two", n.Name, ms.title()))
			return n.Name + " is Ready, although its machine is new: waiting until Kubernetes notices that the old machine is gone", nil
		}
		converge.Progressf(ctx, "deleting the Node of an earlier %s", n.Name)
		if err := client.DeleteNode(ctx, n.Name); err != nil {
			return "", err
		}
		deleted = true
		_, err = client.Node(ctx, n.Name)
		if errors.Is(err, kube.ErrNotFound) {
			return "", nil
		}
		return "it was deleted just now", err
	})
	if err != nil && over != nil && ctx.Err() == nil {
		return over
	}
	return err
}
