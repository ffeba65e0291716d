package session

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/printable"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/fleet/lint"
)

// defaultFolder is where fleet:render writes.
const defaultFolder = "fleet"

// fleetTree renders the parts that go through Git, from the file alone if the session is not
// bound to a world, and prints what the linter finds for Fleet. Without such a part it is an error, unless the
// folder may be empty.
func fleetTree(s *Session, ctx context.Context, mayBeEmpty func(*Session, context.Context) (bool, error)) (fleet.Tree, error) {
	tree, assumed, err := platform.FleetTree(s.Spec)
	if err != nil {
		return nil, exitError(invalid, err)
	}
	if tree == nil {
		if may, err := mayBeEmpty(s, ctx); err != nil {
			return nil, err
		} else if !may {
			return nil, exitErrorf(invalid, "no part is deployed through Git: name parts in charts.via, or write default: fleet in the section fleet for all (flux and argocd likewise)")
		}
	}
	if s.Cluster != nil {
		if tree, err = s.Cluster.FleetTree(ctx); err != nil {
			return nil, err
		}
		assumed = nil
	}
	for _, what := range assumed {
		s.Printf("assumed: %s; fleet:push and fleet:render -live ask", what)
	}
	if _, via := s.Spec.Platform.GitOps(); fleet.Tool(via) != fleet.ToolFleet {
		return tree, nil
	}
	report, err := lint.Run(ctx, tree.FS(), lint.Options{})
	if err != nil {
		return nil, err
	}
	for _, f := range report.AtLeast(lint.Warning).Findings {
		s.Printf("warning: %s", f)
	}
	return tree, nil
}

// FleetRender writes the GitOps folder here. It needs only the file; live, it also asks the
// cluster.
func FleetRender(ctx context.Context, o Options, f FleetRenderFlags) error {
	if f.Live {
		return Do(ctx, o, func(s *Session, ctx context.Context) error { return fleetRender(s, ctx, f) })
	}
	s, err := Load(o)
	if err != nil {
		return err
	}
	return fleetRender(s, ctx, f)
}

// FleetRender writes the GitOps folder here.
func fleetRender(s *Session, ctx context.Context, f FleetRenderFlags) error {
	tree, err := fleetTree(s, ctx, func(*Session, context.Context) (bool, error) { return false, nil })
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
	printChanges(s, changes)
	if len(changes) == 0 {
		s.Printf("Nothing to change: %s matches %s.", dir, filepath.Base(s.Spec.File))
		return nil
	}
	s.Printf("%s in %s. git diff shows them; homelab fleet:push pushes them to the repository.", printable.Count(len(changes), "change"), dir)
	return nil
}

// FleetPush pushes the GitOps folder to the repository; it first asks about what Fleet would
// remove.
func FleetPush(s *Session, ctx context.Context, f FleetPushFlags) error {
	tree, err := fleetTree(s, ctx, hasFolder)
	if err != nil {
		return err
	}
	remote, err := s.Cluster.FleetRemote()
	if err != nil {
		return exitError(invalid, err)
	}
	var done *fleet.PushResult
	build := func(context.Context) (graph *converge.Graph, err error) {
		graph, done = s.Cluster.FleetPush(remote, tree, f.Force)
		return graph, nil
	}
	if err := s.runConfirmed(ctx, build, Change{
		ChangeFlags: f.ChangeFlags, Question: "Push it?",
		Nothing: fmt.Sprintf("Nothing to push: the repository matches %s.", filepath.Base(s.Spec.File)),
	}); err != nil || done.Commit == "" {
		return err
	}
	printChanges(s, done.Changes)
	s.Printf("%s pushed, commit %.12s.\nNext:\n  homelab fleet:status -timeout=15m   waits until %s has deployed it",
		printable.Count(len(done.Changes), "change"), done.Commit, printable.Word(remote.Tool.Title()))
	return nil
}

// hasFolder reports whether we have written the folder in the repository: what left the file is still in it.
func hasFolder(s *Session, ctx context.Context) (bool, error) {
	remote, err := s.Cluster.FleetRemote()
	if err != nil {
		return false, nil //nolint:nilerr // the file names no repository
	}
	there, err := remote.Observe(ctx, nil)
	return err == nil && there.Ours(), err
}

func printChanges(s *Session, changes []fleet.Change) {
	for _, c := range changes {
		if c.Path != fleet.ListFile {
			s.Printf("  %-8s %s", c.What, c.Path)
		}
	}
}
