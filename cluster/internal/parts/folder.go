package parts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/suggest"
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

// isRead reports whether the tool is told to deploy our folder. While it still deploys parts from another one, which the
// file no longer names and nobody would empty, that is an error.
func (e emptyFolder) isRead(ctx context.Context) (bool, error) {
	client, err := e.Kube(ctx)
	if err != nil {
		return false, err
	}
	f, _ := e.Spec.Platform.GitOps()
	have, err := e.tool().Source(ctx, client)
	if err != nil || len(have.Paths) == 0 {
		return false, err
	}
	same := have.IsAt(fleet.GitRepo{URL: f.Repo, Branch: f.Branch})
	if same && slices.Contains(have.Paths, f.Path) {
		return true, nil
	}
	others := slices.DeleteFunc(slices.Clone(have.Paths), func(p string) bool { return same && slices.Contains(f.Extra, p) })
	if len(others) == 0 {
		return false, nil
	}
	left, err := partsOf(ctx, client, e.tool())
	if err != nil || len(left.deployed) == 0 {
		return false, err
	}
	return false, converge.Permanent(fmt.Errorf("%s still deploys %s from folder %s of branch %s of %s, which the file no longer names, so that nothing would empty it: "+
		"name them again, run cluster:up, and change them then", e.tool().Title(), suggest.FirstOf(left.deployed), strings.Join(others, ", "), have.Branch, printable.Text(have.URL)))
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
