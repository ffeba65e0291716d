package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge/progress"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
)

// takeDown drains a node, does what needs it down, and waits until it is as well as
// before. No server goes while another is away, and whatever fails meanwhile, no other
// node goes down in this run.
func (c *Cluster) takeDown(ctx context.Context, n Node, do func(context.Context) error) (err error) {
	done, err := c.turn(ctx, n.Name)
	if err != nil {
		return err
	}
	defer done()
	defer func() { c.sick(ctx, err, n.Name) }()
	if n.Role == FileServer { // mounts are hard: whoever writes waits until it is back
		return do(ctx)
	}
	was, err := c.emptied(ctx, n)
	if err != nil {
		return err
	}
	if err := do(ctx); err != nil || was == nil {
		return err
	}
	return c.backAsBefore(ctx, n, was)
}

// turn waits until nobody else is down on purpose, and keeps others up until done is
// called. After one that did not come back well nobody goes down any more.
func (c *Cluster) turn(ctx context.Context, who string) (done func(), err error) {
	progress.Say(ctx, "waiting for another node to come back")
	select {
	case c.restarting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done = func() { <-c.restarting }
	if c.unwell != "" && c.unwell != who {
		defer done()
		return nil, fmt.Errorf("%s stays up, since %s did not come back well: mend that first, then run it again", who, c.unwell)
	}
	return done, nil
}

// sick remembers which nodes were being taken down or brought back when that failed; a
// node that is well after another try is forgotten. It is for one whose turn it is.
func (c *Cluster) sick(ctx context.Context, err error, nodes ...string) {
	name := strings.Join(nodes, " and ")
	switch {
	case err != nil && ctx.Err() == nil:
		c.unwell = name
	case err == nil && c.unwell == name:
		c.unwell = ""
	}
}

// backAsBefore waits until a node that was taken down is as well as it was.
func (c *Cluster) backAsBefore(ctx context.Context, n Node, was *kube.Node) error {
	if err := c.waitBack(ctx, was); err != nil || n.Role != Server {
		return err
	}
	return c.apiBack(ctx)
}

// emptied drains a node, when nobody else is away, and returns what it was before: nil
// where no cluster knows it.
func (c *Cluster) emptied(ctx context.Context, n Node) (*kube.Node, error) {
	lone := n.Role == Server && len(c.spec.Servers()) == 1
	was, err := c.observeNode(ctx, n.Name)
	switch {
	case errors.Is(err, errUnformed):
		progress.Say(ctx, "there is no cluster yet that %s would have to be drained from", n.Name)
		return nil, nil
	case err != nil && lone && ctx.Err() == nil:
		progress.Say(ctx, "%s is the only server and its API does not answer, so nothing can be drained; going on: %s", n.Name, firstLine(err.Error()))
		return nil, nil
	case err != nil || was == nil:
		return nil, err
	}
	if n.Role == Server && !lone {
		if err := c.othersReady(ctx, n); err != nil {
			return nil, err
		}
	}
	return c.drain(ctx, n.Name)
}

// othersReady waits until every other server that the cluster has is Ready: etcd bears
// that one is away, not two.
func (c *Cluster) othersReady(ctx context.Context, n Node) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return patiently(ctx, n.Name+" is not taken down while another server is away", func() (string, error) {
		client, err := c.kube(ctx)
		if err != nil {
			return "", err
		}
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return "", err
		}
		var away []string
		for _, other := range nodes {
			if other.Name != n.Name && other.Role == string(Server) && !other.Ready {
				away = append(away, other.Name+": "+other.Reason)
			}
		}
		return strings.Join(away, ", "), nil
	})
}

// waitBack waits until a node that was taken down is Ready again with the GPUs that it
// had, and lets pods back. For forty seconds after the last word of its kubelet
// Kubernetes calls a node Ready that is not there, so what counts is the word of
// another boot or version.
func (c *Cluster) waitBack(ctx context.Context, was *kube.Node) error {
	n, _ := c.spec.Node(was.Name)
	ctx, cancel := c.within(ctx, bootTime+readyTime, n.Name+" is not back as it was")
	defer cancel()
	why := ""
	gpus := int64(0)
	if c.hasPlugin() { // of what it had, that which the file lets it keep
		gpus = min(was.Count(string(nvidia.Resource)), c.allocatable(n))
	}
	for {
		client, err := c.kube(ctx)
		var have kube.Node
		if err == nil {
			have, err = client.Node(ctx, n.Name)
		}
		switch {
		case err == nil && have.BootID == was.BootID && have.Version == was.Version:
			why = "it is down"
		case err == nil && have.Ready && have.Count(string(nvidia.Resource)) < gpus:
			why = fmt.Sprintf("Ready, with %d of %d GPUs", have.Count(string(nvidia.Resource)), gpus)
		case err == nil && have.Ready:
			return client.Uncordon(ctx, n.Name)
		case err == nil:
			why = have.Reason
		case ctx.Err() == nil: // else the look was cut short, and says nothing
			why = firstLine(err.Error())
		}
		progress.Say(ctx, "waiting for %s to be back: %s", n.Name, why)
		if err := pause(ctx, 2*time.Second); err != nil {
			return fmt.Errorf("%w: %s", err, why)
		}
	}
}
