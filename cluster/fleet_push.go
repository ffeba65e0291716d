package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/drift"
	"github.com/cps-gpu/homelab/fleet"
)

// FleetPush puts a tree into the repository of the file, as one commit. It asks before
// Fleet deletes something, as [Cluster.Up] does, and with overwrite also replaces files that
// others have changed. What was pushed is known when the graph has run: no commit is none.
func (c *Cluster) FleetPush(remote fleet.Remote, tree fleet.Tree, overwrite bool) (*converge.Graph, *fleet.Pushed) {
	g, done := run.Graph(c.spec), &fleet.Pushed{}
	g.Add(&converge.Resource[*fleet.Repo]{
		ID: "push/fleet",
		Observe: func(ctx context.Context) (*fleet.Repo, error) {
			repo, err := remote.Observe(ctx, tree)
			return repo, lasting(err)
		},
		Diff: func(r *fleet.Repo) drift.Diff {
			d := slices.Clone(r.Diff())
			for i := range d { // also what somebody has changed that ours does not have any more
				if _, wanted := tree[d[i].Path]; overwrite && !wanted {
					d[i].Effect = drift.Remove
				}
			}
			return d
		},
		Costs: costsOfPush,
		Apply: func(ctx context.Context, seen *fleet.Repo) error {
			pushed, err := remote.Push(ctx, tree, fleet.PushOptions{Seen: seen, Overwrite: overwrite})
			if err == nil {
				*done = *pushed
			}
			return lasting(err)
		},
		Settle: time.Minute,
		Poll:   run.LookAtGit,
	})
	return g, done
}
