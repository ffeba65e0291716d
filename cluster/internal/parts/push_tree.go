package parts

import (
	"context"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
)

// PushTree is the step that pushes a tree into a repository as one commit, and describes the
// push in done. With overwrite it also replaces files that others have changed.
func PushTree(remote fleet.Remote, tree fleet.Tree, overwrite bool, done *fleet.PushResult) converge.Step {
	return &converge.Resource[*fleet.Repo]{
		ID: "push/fleet",
		Observe: func(ctx context.Context) (*fleet.Repo, error) {
			repo, err := remote.Observe(ctx, tree)
			return repo, markPermanent(err)
		},
		Diff: func(r *fleet.Repo) converge.Diff {
			d := slices.Clone(r.Diff())
			for i := range d { // includes files that others changed and that the tree no longer has
				if _, wanted := tree[d[i].Path]; overwrite && !wanted {
					d[i].Effect = converge.Remove
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
			return markPermanent(err)
		},
		Settle: time.Minute,
		Poll:   run.LookAtGit,
	}
}
