package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/members"
	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// NodeRemove takes an external machine out of the cluster: it drains the node, removes K3s with
// its data and deletes the node from Kubernetes. The machine itself keeps running. The file
// still names it, so [Cluster.Up] lets it join again until it is removed from the file. To
// remove a machine that homelab made, remove it from the file.
//
// Without force it refuses a server that the others need.
func (c *Cluster) NodeRemove(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	f := c.site.flow()
	return run.Retry(ctx, f.spec, func(ctx context.Context) (*converge.Graph, error) { return f.nodeRemoveGraph(ctx, name, force) })
}

func (c *machines) nodeRemoveGraph(ctx context.Context, name string, force bool) (*converge.Graph, error) {
	n, err := c.nodeNamed(name)
	switch {
	case err != nil:
		return nil, err
	case !n.External:
		return nil, &RefusedError{name, "homelab created its machine: remove it from the file, and homelab cluster:up drains and destroys it"}
	}
	if err := c.checkMayDestroy(ctx, n, oldMachine{}, force); err != nil {
		return nil, err
	}
	g := c.members.Graph()
	g.Add(c.releaseStep(n), c.removeExternal(g, n)) // K3s without a Node, on a machine that never joined
	return g, nil
}

// externalReplace lets an external machine join again, for example after a reinstallation.
func (c *machines) externalReplace(ctx context.Context, n spec.Node, force bool) (*converge.Graph, error) {
	if err := c.checkMayDestroy(ctx, n, oldMachine{}, force); err != nil {
		return nil, err
	}
	g := c.members.Graph()
	c.joinAgain(g, n, c.removeExternal(g, n))
	return g, nil
}

// removeExternal adds the steps that remove an external machine from the cluster.
func (c *machines) removeExternal(g *converge.Graph, n spec.Node) *converge.Ref {
	begin := g.Add(c.source().check())
	reached := g.Add(c.nodes.ExternalStep(n), begin)
	return g.Add(c.retireStep(n, oldMachine{}), reached)
}

// joinAgain adds the steps with which a machine that has booted joins.
func (c *machines) joinAgain(g *converge.Graph, n spec.Node, booted *converge.Ref) {
	g.BeforeActing = c.mayChange(n.Name)
	joined := g.Add(c.members.MemberStep(n), c.driver(g, n, booted))
	node := g.Add(c.members.NodeStep(n), joined)
	g.Add(c.members.KubeconfigStep(), node)
	if c.members.HasPlugin() && n.HasGPUs() {
		g.Add(c.members.AllocatableStep(n), c.runtimeOf(g, n, c.offer(g, node))...)
	}
}

// ownInstallation is what an external machine has, unless another cluster has it.
func (c *machines) ownInstallation(ctx context.Context, n spec.Node) (distribution.State, error) {
	have, err := c.members.Member(ctx, n)
	if err != nil {
		return distribution.State{}, members.PermanentIfForeign(err)
	}
	return have.State(), nil
}

// uninstall drains an external machine, removes K3s and deletes its Node, in this order: a
// kubelet that still runs would register again. A server without which etcd has no majority first
// loses its Node, and with it its place in etcd, while it runs: otherwise etcd could not let it go.
func (c *machines) uninstall(ctx context.Context, n spec.Node) error {
	have, err := c.ownInstallation(ctx, n)
	if err != nil {
		return err
	}
	if have.Role != "" { // otherwise nothing runs there that can be evicted
		if _, err := c.members.DrainFor(ctx, n.Name); err != nil {
			return err
		}
		if have, err = c.ownInstallation(ctx, n); err != nil { // the drain took a while
			return err
		}
	}
	needed := n.Role == spec.Server && have.Running && len(c.spec.Servers()) > 1 && !c.quorumWithout(ctx, n)
	if needed {
		if err := c.members.DeleteNode(ctx, n.Name); err != nil {
			return err
		}
	}
	if err := c.distribution().Remove(ctx, n); err != nil {
		return err
	}
	if needed { // the API may have been at this machine
		c.members.SetClient(nil, "")
		if err := c.members.APIBack(ctx, members.APITime); err != nil {
			return err
		}
	}
	return c.members.DeleteNode(ctx, n.Name)
}
