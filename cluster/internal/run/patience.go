package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/wait"
	"github.com/cps-gpu/homelab/spec"
)

// How often a step that waits looks again: at machines and Kubernetes, and at what comes
// through Git, which Fleet itself looks at every few seconds.
const (
	LookEvery = 2 * time.Second
	LookAtGit = 5 * time.Second
)

// askedTime is how long a look that comes before a graph may take.
const askedTime = time.Minute

// Graph is an empty graph whose steps have the time that the file gives them.
func Graph(s *spec.Spec) *converge.Graph {
	return &converge.Graph{Patience: s.Patience, Longer: Longer(s), Begin: Begin}
}

// Longer says how a step gets more time than it had.
func Longer(s *spec.Spec) string {
	return fmt.Sprintf("patience: %d in cluster.yaml would double this limit", 2*max(s.Patience, 1))
}

// Limit is a time limit as the file has it.
func Limit(s *spec.Spec, limit time.Duration) time.Duration {
	return limit * time.Duration(max(s.Patience, 1))
}

// Until is [wait.Until] with the time that the file gives, and how there would be more.
func Until(ctx context.Context, s *spec.Spec, r wait.Rule, look wait.Look) error {
	r.Limit = Limit(s, r.Limit)
	r.Hint = strings.TrimPrefix(r.Hint+"\n  "+Longer(s), "\n  ")
	return wait.Until(ctx, r, look)
}

// Asked is what a look finds that comes before a graph. A host or an API that does not
// answer is waited for here as in the graph's steps.
func Asked[T any](ctx context.Context, s *spec.Spec, look func(context.Context) (T, error)) (out T, err error) {
	rule := wait.Rule{What: "observing", Limit: askedTime, Strict: true, Late: "no complete answer"}
	err = Until(ctx, s, rule, func(ctx context.Context) (string, error) {
		out, err = look(ctx)
		return "", err
	})
	return out, err
}
