package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/spec"
)

// forgetTime is how long a Node of a machine that is gone may seem Ready, and etcd
// may take to forget its member.
const forgetTime = 2 * time.Minute

// forgetOld deletes the Node that an earlier machine of this name has left in the
// cluster, when it was destroyed and nobody told Kubernetes. K3s would refuse the new
// one, since the name's password and the member of etcd are the old one's; both go
// with the Node. One that is Ready belongs to somebody, and is kept.
func (c *Cluster) forgetOld(ctx context.Context, n spec.Node, have k3s.State) error {
	if have.Applied != "" || have.Running() {
		return nil // this machine may be the Node's
	}
	client, err := c.kube(ctx)
	if err != nil {
		return err
	}
	var over error // where time does not help
	deleted := false
	rule := wait.Rule{
		What: "asking for the Node of an earlier " + n.Name, Limit: forgetTime,
		Late: "whether there is a Node of an earlier " + n.Name + " could not be seen",
	}
	err = c.until(ctx, rule, func(ctx context.Context) (string, error) {
		old, err := client.Node(ctx, n.Name)
		switch over = nil; {
		case errors.Is(err, kube.ErrNotFound):
			return "", nil
		case err != nil: // the old machine may have had the API's address, and another server takes it over
			return "", err
		case deleted:
			over = fmt.Errorf("the Node of the machine that was called %s before was deleted, but does not go: look at its finalizers with kubectl get node %s -o yaml", n.Name, n.Name)
			return "it was deleted, and is still there", nil
		case old.Ready:
			over = converge.Permanent(fmt.Errorf("the cluster has a Ready node %s, and it is another machine than this one, on which K3s was never started: give one of the two another name", n.Name))
			return n.Name + " is Ready, though its machine is new: waiting for Kubernetes to miss the old one", nil
		}
		progress.Say(ctx, "deleting the Node that an earlier %s has left", n.Name)
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
