package gitops

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/session"
)

// statusPoll is how often Fleet's status is read while waiting; Fleet polls Git every 15 s.
const statusPoll = 2 * time.Second

// askAgain is after how many checks the repository's commit is read again.
const askAgain = 10

// Status shows how far Fleet has deployed the repository's last commit, and what blocks it. With a time limit it waits until everything is deployed, or the time is over.
func Status(s *session.Session, ctx context.Context, f StatusFlags) error {
	commit := func(ctx context.Context) string { return commitInGit(ctx, s) }
	state, err := waitState(ctx, s.Console, f.Timeout > 0, follow(commit(ctx), commit, s.Cluster.FleetState))
	if err != nil {
		return err
	}
	return show(s.Console, state)
}

// follow returns Fleet's state of the commit that the repository has: first a given one, and while Fleet is not
// there yet, every askAgain looks what it has then, because others push there too.
func follow(commit string, inGit func(context.Context) string, stateOf func(context.Context, string) (*fleet.State, error)) func(context.Context) (*fleet.State, error) {
	looks, last := 0, ""
	return func(ctx context.Context) (*fleet.State, error) {
		if looks++; looks%askAgain == 0 && last != commit {
			commit = inGit(ctx)
		}
		state, err := stateOf(ctx, commit)
		if err == nil {
			last = state.Commit
		}
		return state, err
	}
}

// waitState is Fleet's state; if it waits, the last state before the time is over. It retries
// if the API does not answer for a while.
func waitState(ctx context.Context, c *console.Console, waits bool, look func(context.Context) (*fleet.State, error)) (state *fleet.State,
	err error) {
	if !waits {
		return look(ctx)
	}
	rule := converge.WaitRule{Poll: statusPoll, Strict: true, OnChange: func(seen string) { c.Printf("waiting: %s", seen) }}
	err = converge.Until(ctx, rule, func(ctx context.Context) (string, error) {
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
func commitInGit(ctx context.Context, s *session.Session) string {
	remote, err := s.Cluster.FleetRemote()
	if err == nil {
		var repo *fleet.Repo
		if repo, err = remote.Observe(ctx, nil); err == nil {
			return repo.Commit
		}
	}
	s.Printf("warning: cannot find out which commit should be deployed: %s", err)
	return ""
}

func show(c *console.Console, state *fleet.State) error {
	if c.JSON {
		if err := console.Objects(c, []*fleet.State{state}); err != nil {
			return err
		}
	} else {
		t := console.Table{Header: []string{"BUNDLE", "CLUSTER", "STATE", ""}}
		for _, b := range state.Bundles {
			var why []string
			for _, o := range b.Obstacles {
				why = append(why, o.String())
			}
			t.Add(b.Name, b.Cluster, b.State, strings.Join(why, "; "))
		}
		c.Table(t)
	}
	if d := state.Diff(); !d.Empty() {
		return session.Pending(errors.New("not everything is deployed: " + d[0].String()))
	}
	c.Printf("Everything is deployed, of commit %.12s.", state.Commit)
	return nil
}
