package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
)

// forgetTime is how long a Node of a machine that is gone may seem Ready, and etcd
// may take to forget its member.
const forgetTime = 2 * time.Minute

// forgetOld deletes the Node that an earlier machine of this name has left in the
// cluster, when it was destroyed and nobody told Kubernetes. K3s would refuse the new
// one, since the name's password and the member of etcd are the old one's; both go
// with the Node. One that is Ready belongs to somebody, and is kept.
func (c *Cluster) forgetOld(ctx context.Context, n Node, have k3s.State) error {
	if have.Applied != "" || have.Running() {
		return nil // this machine may be the Node's
	}
	client, err := c.kube(ctx)
	if err != nil {
		return err
	}
	deadline, deleted := time.Now().Add(c.patient(forgetTime)), false
	for {
		old, err := client.Node(ctx, n.Name)
		switch {
		case errors.Is(err, kube.ErrNotFound):
			return nil
		case err != nil && (ctx.Err() != nil || time.Now().After(deadline)):
			return err
		case err != nil: // the old machine may have had the API's address, and another server takes it over
			progress.Say(ctx, "whether there is a Node of an earlier %s cannot be seen yet: %s", n.Name, firstLine(err.Error()))
		case time.Now().After(deadline) && deleted:
			return fmt.Errorf("the Node of the machine that was called %s before was deleted, but does not go: look at its finalizers with kubectl get node %s -o yaml", n.Name, n.Name)
		case time.Now().After(deadline):
			return converge.Permanent(fmt.Errorf("the cluster has a Ready node %s, and it is another machine than this one, on which K3s was never started: give one of the two another name", n.Name))
		case old.Ready && !deleted:
			progress.Say(ctx, "%s is Ready, though its machine is new: waiting for Kubernetes to miss the old one", n.Name)
		case !deleted:
			progress.Say(ctx, "deleting the Node that an earlier %s has left", n.Name)
			if err := client.DeleteNode(ctx, n.Name); err != nil {
				return err
			}
			deleted = true
			continue
		}
		if pause(ctx, 2*time.Second) != nil {
			return ctx.Err()
		}
	}
}
