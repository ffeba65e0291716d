package cluster

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/parts"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
)

// FleetPush pushes a tree into the repository of the file, as one commit. It asks before Fleet
// deletes something, as [Cluster.Up] does. With overwrite it also replaces files that others
// have changed. After the graph has run, Pushed describes the push; without a commit, nothing
// was pushed.
func (c *Cluster) FleetPush(remote fleet.Remote, tree fleet.Tree, overwrite bool) (*converge.Graph, *fleet.PushResult) {
	g, done := c.site.flow().members.Graph(), &fleet.PushResult{}
	g.Add(parts.PushTree(remote, tree, overwrite, done))
	return g, done
}

// FleetTree is the wanted content of the folder in Git.
func (c *Cluster) FleetTree(ctx context.Context) (fleet.Tree, error) {
	return c.site.flow().parts.FleetTree(ctx)
}

// FleetRemote is the Git repository that the file names, and the credentials for it.
func (c *Cluster) FleetRemote() (fleet.Remote, error) { return c.site.flow().parts.FleetRemote() }

// FleetState reads what Fleet has made of the repository. If commit is not empty, an earlier
// commit does not count.
func (c *Cluster) FleetState(ctx context.Context, commit string) (*fleet.State, error) {
	client, err := c.site.flow().members.Kube(ctx)
	if err != nil {
		return nil, err
	}
	_, via := c.site.spec.Platform.GitOps()
	return fleet.Observe(ctx, client, fleet.StatusOptions{Tool: fleet.Tool(via), Commit: commit})
}
