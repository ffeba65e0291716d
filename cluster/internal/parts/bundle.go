package parts

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/cluster/internal/run"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/addon"
)

// bundleTime is how long Fleet may take for a part: it reads, installs and pulls images.
const bundleTime = 15 * time.Minute

// bundleStep waits until Fleet has deployed a part as it is in the last commit.
func (s *Steps) bundleStep(p addon.Recipe) *converge.Resource[converge.Diff] {
	return &converge.Resource[converge.Diff]{
		ID: string(s.tool()) + "/" + p.Name,
		Observe: func(ctx context.Context) (converge.Diff, error) {
			state, pending, err := s.fleetState(ctx)
			if err != nil || pending {
				return pendingDiff(), err
			}
			return state.Part(p.Name), nil
		},
		Diff:   func(d converge.Diff) converge.Diff { return d },
		Settle: bundleTime,
		Poll:   run.PollInterval,
		Hint:   "homelab fleet:status shows which object blocks it; run it again to continue",
	}
}

// pendingDiff is what is missing as long as the push is.
func pendingDiff() converge.Diff {
	return converge.Diff{{Have: "an earlier commit", Want: "the one that is to be pushed", Effect: converge.Update}}
}

// stateAge is how old the state of all bundles may be when several steps share it.
const stateAge = time.Second

// fleetState reads the state of all bundles, once for all steps that wait for their bundles.
func (s *Steps) fleetState(ctx context.Context) (state *fleet.State, pending bool, err error) {
	client, err := s.Kube(ctx)
	if err != nil {
		return nil, false, err
	}
	s.pushed.mu.Lock()
	defer s.pushed.mu.Unlock()
	if s.pushed.pending || s.pushed.state != nil && s.pushed.state.Want == s.pushed.commit && time.Since(s.pushed.at) < stateAge {
		return s.pushed.state, s.pushed.pending, nil
	}
	state, err = fleet.Observe(ctx, client, fleet.StatusOptions{Tool: s.tool(), Commit: s.pushed.commit})
	if err != nil {
		return nil, false, err
	}
	s.pushed.state, s.pushed.at = state, time.Now()
	if state.Commit != "" && state.Commit != s.pushed.commit && time.Since(s.pushed.asked) > movedTime {
		s.pushed.asked = time.Now()
		return state, false, s.follow(ctx)
	}
	return state, false, nil
}

// movedTime is how often the branch is checked again while Fleet is at another commit.
const movedTime = 30 * time.Second

// follow waits for the current commit of the branch. Others push to it too, so Fleet may skip our
// commit and deploy a later one that contains our folder unchanged.
func (s *Steps) follow(ctx context.Context) error {
	tree, err := s.FleetTree(ctx)
	if err != nil {
		return err
	}
	remote, err := s.FleetRemote()
	if err != nil {
		return err
	}
	repo, err := remote.Observe(ctx, tree)
	if err == nil && repo.Diff().Empty() {
		s.pushed.commit = repo.Commit
	}
	return err
}

// checkNotInFleet returns an error if the tool still deploys a part that Up must apply directly: Fleet
// and Flux delete the part together with its bundle.
func (s *Steps) checkNotInFleet(ctx context.Context, client *kube.Client, p addon.Recipe) error {
	if f, _ := s.Spec.Platform.GitOps(); f == nil || f.Repo == "" || p.Direct != "" && !p.Offers {
		return nil
	}
	state, err := fleet.Observe(ctx, client, fleet.StatusOptions{Tool: s.tool()})
	if err != nil {
		return err
	}
	for _, b := range state.Bundles {
		switch {
		case b.Part != p.Name:
		case b.State == fleet.StateKept:
			return converge.Permanent(fmt.Errorf("%s still looks after %s, which is no longer in Git: make it let go, without uninstalling it: %s", s.tool().Title(), p.Name, s.tool().LetGo(b.Name)))
		default:
			then := "and would delete it when its bundle goes"
			if !s.tool().Uninstalls() {
				then = "and would undo what this changes"
			}
			return converge.Permanent(fmt.Errorf(s.tool().Title()+" still deploys %s (bundle %s), "+then+": "+
				"first remove it from Git with homelab fleet:push, and run this again when fleet:status no longer shows it", p.Name, b.Name))
		}
	}
	return nil
}
