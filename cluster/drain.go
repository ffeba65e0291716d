package cluster

import (
	"context"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/internal/workload"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// NodeDrain drains a node: it gets no new pods, and its pods are evicted as their disruption
// budgets allow. Pods of DaemonSets stay.
func (c *Cluster) NodeDrain(name string) (*converge.Graph, error) {
	f := c.site.flow()
	n, err := f.nodeNamed(name)
	if err != nil {
		return nil, err
	}
	g := f.members.Graph()
	g.Add(f.drainStep(n))
	return g, nil
}

// drainState is a node, nil if the cluster does not have it, and the pods that are still on it.
type drainState struct {
	node *kube.Node
	pods int
}

func (c *machines) drainStep(n spec.Node) *converge.Resource[drainState] {
	return &converge.Resource[drainState]{
		ID: "drain/" + n.Name,
		Observe: func(ctx context.Context) (drainState, error) {
			node, err := c.members.ObserveNode(ctx, n.Name)
			if err != nil {
				return drainState{}, err
			}
			if node == nil {
				return drainState{}, converge.Permanent(&RefusedError{n.Name, "Kubernetes has no such node: homelab cluster:up lets it join"})
			}
			client, err := c.members.Kube(ctx)
			if err != nil {
				return drainState{}, err
			}
			pods, err := client.CountEvictions(ctx, n.Name)
			return drainState{node, pods}, err
		},
		Diff: func(have drainState) converge.Diff {
			var d converge.Diff
			if !have.node.Cordoned {
				d = append(d, converge.Field{Path: "scheduling", Have: "allowed", Want: "cordoned", Effect: converge.Update})
			}
			if have.pods > 0 {
				d = append(d, converge.Field{Path: "pods", Have: fmt.Sprint(have.pods), Want: "evicted", Effect: converge.Update})
			}
			return d
		},
		Costs: c.costsOfDrain(n),
		Apply: func(ctx context.Context, _ drainState) error {
			_, err := c.members.Drain(ctx, n.Name)
			return err
		},
	}
}

// NodeUncordon lets new pods onto a node again.
func (c *Cluster) NodeUncordon(name string) (*converge.Graph, error) {
	f := c.site.flow()
	n, err := f.nodeNamed(name)
	if err != nil {
		return nil, err
	}
	g := f.members.Graph()
	g.Add(&converge.Resource[*kube.Node]{
		ID: "uncordon/" + n.Name,
		Observe: func(ctx context.Context) (*kube.Node, error) {
			have, err := f.members.ObserveNode(ctx, n.Name)
			if err == nil && have == nil {
				err = converge.Permanent(&RefusedError{n.Name, "Kubernetes has no such node: homelab cluster:up lets it join"})
			}
			return have, err
		},
		Diff: func(have *kube.Node) converge.Diff {
			if !have.Cordoned {
				return nil
			}
			return converge.Diff{{Path: "scheduling", Have: "cordoned", Want: "allowed", Effect: converge.Update}}
		},
		Apply: func(ctx context.Context, _ *kube.Node) error { return f.members.Uncordon(ctx, n.Name) },
	})
	return g, nil
}

// costsOfDrain is the work that ends when a node is drained.
func (c *machines) costsOfDrain(n spec.Node) func(context.Context, drainState, converge.Diff) []converge.Cost {
	return func(ctx context.Context, have drainState, _ converge.Diff) []converge.Cost {
		if have.pods == 0 {
			return nil
		}
		users := c.members.Users(ctx, func(w *workload.Work) []converge.Loss { return w.Ends(n.Name) })
		if len(users) == 0 {
			return nil // the pods there are recreated elsewhere
		}
		return []converge.Cost{{
			Machine: "work on " + n.Name, Kind: converge.CostStop, Reason: "drained: no pods are scheduled until it is uncordoned", Users: users,
		}}
	}
}
