package parts

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
)

// emptyFolder has the steps for a file of which nothing goes through Git: they empty our folder there, and wait until
// the tool has read that. It goes on with what it has deployed if it is only told to read the folder no longer.
type emptyFolder struct{ *Steps }

func (e emptyFolder) add(up *converge.Graph, needs *converge.Ref) (last *converge.Ref) {
	if f, _ := e.Spec.Platform.GitOps(); f == nil || f.Repo == "" {
		return needs
	}
	last = up.Add(e.push(), needs)
	if e.tool() == fleet.ToolFleet {
		// Its job deletes the bundles of a folder without any, and then fails (fleet v0.16.1
		// internal/cmd/cli/apply/apply.go, CreateBundles). What it has not deleted goes with the GitRepo or its path.
		return last
	}
	return up.Add(e.wait(), last)
}

// isRead reports whether the tool is told to deploy our folder.
func (e emptyFolder) isRead(ctx context.Context) (bool, error) {
	client, err := e.Kube(ctx)
	if err != nil {
		return false, err
	}
	f, _ := e.Spec.Platform.GitOps()
	return e.tool().Reads(ctx, client, f.Path)
}

// push pushes the empty folder, if the tool reads ours; otherwise it asks no Git server.
func (e emptyFolder) push() *converge.Resource[*fleet.Repo] {
	step := e.pushStep()
	observe := step.Observe
	step.Observe = func(ctx context.Context) (*fleet.Repo, error) {
		if read, err := e.isRead(ctx); err != nil || !read {
			return &fleet.Repo{}, err
		}
		return observe(ctx)
	}
	return step
}

// wait waits until the tool has read the empty folder.
func (e emptyFolder) wait() *converge.Resource[converge.Diff] {
	return &converge.Resource[converge.Diff]{
		ID: "emptied/" + string(e.tool()),
		Observe: func(ctx context.Context) (converge.Diff, error) {
			if read, err := e.isRead(ctx); err != nil || !read {
				return nil, err
			}
			state, pending, err := e.fleetState(ctx)
			if err != nil || pending {
				return pendingDiff(), err
			}
			return state.Source(), nil
		},
		Diff:   func(d converge.Diff) converge.Diff { return d },
		Settle: bundleTime,
		Poll:   run.PollInterval,
		Hint:   "homelab fleet:status shows what blocks it; run it again to continue",
	}
}
