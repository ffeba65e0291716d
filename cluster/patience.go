package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/converge/wait"
)

// How often a step that waits looks again: at machines and Kubernetes, and at what comes
// through Git, which Fleet itself looks at every few seconds.
const (
	lookEvery = 2 * time.Second
	lookAtGit = 5 * time.Second
)

// graph is an empty graph whose steps have the time that the file gives them.
func (c *Cluster) graph() *converge.Graph {
	return &converge.Graph{Patience: c.spec.Patience, Longer: c.longer(), Begin: c.begin}
}

// longer says how a step gets more time than it had.
func (c *Cluster) longer() string {
	return fmt.Sprintf("patience: %d in cluster.yaml would double this limit", 2*max(c.spec.Patience, 1))
}

// patient is a time limit as the file has it.
func (c *Cluster) patient(limit time.Duration) time.Duration {
	return limit * time.Duration(max(c.spec.Patience, 1))
}

// until is [wait.Until] with the time that the file gives, and how there would be more.
func (c *Cluster) until(ctx context.Context, r wait.Rule, look wait.Look) error {
	r.Limit = c.patient(r.Limit)
	r.Hint = strings.TrimPrefix(r.Hint+"\n  "+c.longer(), "\n  ")
	return wait.Until(ctx, r, look)
}

// asked is what a look finds that comes before a graph. A host or an API that does not
// answer is waited for here as in the graph's steps.
func asked[T any](ctx context.Context, c *Cluster, look func(context.Context) (T, error)) (out T, err error) {
	rule := wait.Rule{What: "observing", Limit: moveTime, Strict: true, Late: "no complete answer"}
	err = c.until(ctx, rule, func(ctx context.Context) (string, error) {
		out, err = look(ctx)
		return "", err
	})
	return out, err
}
