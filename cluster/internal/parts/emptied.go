package parts

import (
	"context"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
)

// emptySteps adds the steps for a file of which nothing goes through Git: they empty our folder there, and wait until
// the tool has read that. It goes on with what it has deployed if it is only told to read the folder no longer.
func (s *Steps) emptySteps(up *converge.Graph, needs *converge.Ref) *converge.Ref {
	if f, _ := s.Spec.Platform.GitOps(); f == nil || f.Repo == "" {
		return needs
	}
	push := up.Add(s.emptyStep(), needs)
	if s.tool() == fleet.ToolFleet {
		// Its job deletes the bundles of a folder without any, and then fails (fleet v0.16.1
		// internal/cmd/cli/apply/apply.go, CreateBundles). What it has not deleted goes with the GitRepo or its path.
		return push
	}
	return up.Add(s.emptiedStep(), push)
}

// readsFolder reports whether the tool is told to deploy our folder.
func (s *Steps) readsFolder(ctx context.Context) (bool, error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return false, err
	}
	f, _ := s.Spec.Platform.GitOps()
	return s.tool().Reads(ctx, client, f.Path)
}

// emptyStep pushes the empty folder, if the tool reads ours; otherwise it asks no Git server.
func (s *Steps) emptyStep() *converge.Resource[*fleet.Repo] {
	step := s.pushStep()
	observe := step.Observe
	step.Observe = func(ctx context.Context) (*fleet.Repo, error) {
		if reads, err := s.readsFolder(ctx); err != nil || !reads {
			return &fleet.Repo{}, err
		}
		return observe(ctx)
	}
	return step
}

// emptiedStep waits until the tool has read the empty folder.
func (s *Steps) emptiedStep() *converge.Resource[converge.Diff] {
	return &converge.Resource[converge.Diff]{
		ID: "emptied/" + string(s.tool()),
		Observe: func(ctx context.Context) (converge.Diff, error) {
			if reads, err := s.readsFolder(ctx); err != nil || !reads {
				return nil, err
			}
			return s.fleetDiff(ctx, (*fleet.State).Source)
		},
		Diff:   func(d converge.Diff) converge.Diff { return d },
		Settle: bundleTime,
		Poll:   run.PollInterval,
		Hint:   "homelab fleet:status shows what blocks it; run it again to continue",
	}
}
