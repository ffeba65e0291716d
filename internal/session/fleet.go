package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/platform"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/fleet/lint"
	"github.com/cps-gpu/homelab/internal/console"
)

// defaultFolder is where fleet:render writes.
const defaultFolder = "fleet"

// fleetTree renders the parts that go through Git, from the file alone if the session is not
// bound to a world, and prints the linter's findings.
func (s *Session) fleetTree(ctx context.Context) (fleet.Tree, error) {
	tree, assumed, err := platform.FleetTree(s.Spec)
	if err != nil {
		return nil, failed(invalid, err)
	}
	if tree == nil {
		return nil, failedf(invalid, "no part is deployed through Git: name parts in charts.via, or write fleet.default: fleet for all")
	}
	if s.Cluster != nil {
		if tree, err = s.Cluster.FleetTree(ctx); err != nil {
			return nil, err
		}
		assumed = nil
	}
	for _, what := range assumed {
		s.Say("assumed: %s; fleet:push and fleet:render -live ask", what)
	}
	report, err := lint.Run(ctx, tree.FS(), lint.Options{})
	if err != nil {
		return nil, err
	}
	for _, f := range report.At(lint.Warning).Findings {
		s.Say("warning: %s", f)
	}
	return tree, nil
}

// FleetRender writes the GitOps folder here. It needs only the file; live, it also asks the
// cluster.
func FleetRender(ctx context.Context, o Options, f FleetRenderFlags) error {
	if f.Live {
		return Do(ctx, o, func(s *Session, ctx context.Context) error { return s.FleetRender(ctx, f) })
	}
	s, err := Load(o)
	if err != nil {
		return err
	}
	return s.FleetRender(ctx, f)
}

// FleetRender writes the GitOps folder here.
func (s *Session) FleetRender(ctx context.Context, f FleetRenderFlags) error {
	tree, err := s.fleetTree(ctx)
	if err != nil {
		return err
	}
	dir := f.Out
	if dir == "" {
		dir = defaultFolder
	}
	changes, err := fleet.Write(dir, tree, f.Force)
	if err != nil {
		return err
	}
	s.sayChanges(changes)
	if len(changes) == 0 {
		s.Say("Nothing to change: %s matches %s.", dir, filepath.Base(s.Spec.File))
		return nil
	}
	s.Say("%s in %s. git diff shows them; go tool mage fleet:push pushes them to the repository.", count(len(changes), "change"), dir)
	return nil
}

// FleetPush pushes the GitOps folder to the repository; it first asks about what Fleet would
// remove.
func (s *Session) FleetPush(ctx context.Context, f FleetPushFlags) error {
	tree, err := s.fleetTree(ctx)
	if err != nil {
		return err
	}
	remote, err := s.Cluster.FleetRemote()
	if err != nil {
		return failed(invalid, err)
	}
	var done *fleet.Pushed
	build := func(context.Context) (graph *converge.Graph, err error) {
		graph, done = s.Cluster.FleetPush(remote, tree, f.Force)
		return graph, nil
	}
	if err := s.confirmed(ctx, build, spoken{
		ChangeFlags: f.ChangeFlags, wish: wish{question: "Push it?"},
		nothing: fmt.Sprintf("Nothing to push: the repository matches %s.", filepath.Base(s.Spec.File)),
	}); err != nil || done.Commit == "" {
		return err
	}
	s.sayChanges(done.Changes)
	s.Say("%s pushed, commit %.12s.\nNext:\n  go tool mage fleet:status -timeout=15m   waits until Fleet has deployed it", count(len(done.Changes), "change"), done.Commit)
	return nil
}

func (s *Session) sayChanges(changes []fleet.Change) {
	for _, c := range changes {
		if c.Path != fleet.ListFile {
			s.Say("  %-8s %s", c.What, c.Path)
		}
	}
}

// statusPoll is how often Fleet's status is read while waiting; Fleet polls Git every 15 s.
const statusPoll = 2 * time.Second

// askAgain is after how many checks the repository's commit is read again.
const askAgain = 10

// FleetStatus shows how far Fleet has deployed the repository's last commit, and what blocks
// it. With a time limit it waits until everything is deployed, or the time is over.
func (s *Session) FleetStatus(ctx context.Context, f FleetStatusFlags) error {
	commit, looks, last := s.commitInGit(ctx), 0, ""
	state, err := s.fleetState(ctx, f.Timeout > 0, func(ctx context.Context) (*fleet.State, error) {
		if looks++; looks%askAgain == 0 && last != commit { // others push there too
			commit = s.commitInGit(ctx)
		}
		state, err := s.Cluster.FleetState(ctx, commit)
		if err == nil {
			last = state.Commit
		}
		return state, err
	})
	if err != nil {
		return err
	}
	return s.showFleet(state)
}

// fleetState is Fleet's state; if it waits, the last state before the time is over. It retries
// if the API does not answer for a while.
func (s *Session) fleetState(ctx context.Context, waits bool, look func(context.Context) (*fleet.State, error)) (state *fleet.State, err error) {
	if !waits {
		return look(ctx)
	}
	rule := wait.Rule{Poll: statusPoll, Strict: true, Say: func(seen string) { s.Say("waiting: %s", seen) }}
	err = wait.Until(ctx, rule, func(ctx context.Context) (string, error) {
		now, err := look(ctx)
		if err != nil {
			return "", err
		}
		state = now
		if d := now.Diff(); !d.Empty() {
			return d[0].String(), nil
		}
		return "", nil
	})
	if state != nil && ctx.Err() != nil {
		return state, nil // the last state counts
	}
	return state, err
}

// commitInGit is the commit that Fleet should have deployed; empty, with a warning, if the
// repository cannot be read.
func (s *Session) commitInGit(ctx context.Context) string {
	remote, err := s.Cluster.FleetRemote()
	if err == nil {
		var repo *fleet.Repo
		if repo, err = remote.Observe(ctx, nil); err == nil {
			return repo.Commit
		}
	}
	s.Say("warning: cannot find out which commit should be deployed: %s", err)
	return ""
}

func (s *Session) showFleet(state *fleet.State) error {
	if s.JSON {
		if err := console.Objects(s.Console, []*fleet.State{state}); err != nil {
			return err
		}
	} else {
		t := console.Table{Header: []string{"BUNDLE", "CLUSTER", "STATE", ""}}
		for _, b := range state.Bundles {
			var why []string
			for _, o := range b.Why {
				why = append(why, o.String())
			}
			t.Add(b.Name, b.Cluster, b.State, strings.Join(why, "; "))
		}
		s.Table(t)
	}
	if d := state.Diff(); !d.Empty() {
		return failed(pending, errors.New("not everything is deployed: "+d[0].String()))
	}
	s.Say("Everything is deployed, of commit %.12s.", state.Commit)
	return nil
}
