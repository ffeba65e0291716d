package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// graph is an empty graph whose steps have the time that the file gives them.
func (c *Cluster) graph() *converge.Graph {
	return &converge.Graph{Patience: c.spec.Patience, Longer: c.longer()}
}

// longer says how a step gets more time than it had.
func (c *Cluster) longer() string {
	return fmt.Sprintf("patience: %d in cluster.yaml would double this limit", 2*max(c.spec.Patience, 1))
}

// patient is a time limit as the file has it.
func (c *Cluster) patient(limit time.Duration) time.Duration {
	return limit * time.Duration(max(c.spec.Patience, 1))
}

// within bounds ctx by a time limit. Its cause, once that is over, says what did not
// happen, the limit, and how there would be more time.
func (c *Cluster) within(ctx context.Context, limit time.Duration, what string) (context.Context, context.CancelFunc) {
	limit = c.patient(limit)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s within %s; %s", what, limit, c.longer()))
}
