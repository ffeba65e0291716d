package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
)

// How often a waiting step checks again: machines and Kubernetes, and what comes through Git,
// which Fleet itself checks every few seconds.
const (
	PollInterval = 2 * time.Second
	LookAtGit    = 5 * time.Second
)

// askedTime is how long a check before a graph may take.
const askedTime = time.Minute

// TimeoutHint says how to give a step more time.
func TimeoutHint(s *spec.Spec) string {
	return fmt.Sprintf("patience: %d in cluster.yaml would double this limit", 2*max(s.Patience, 1))
}

// Limit is a time limit after the file has scaled it.
func Limit(s *spec.Spec, limit time.Duration) time.Duration {
	return limit * time.Duration(max(s.Patience, 1))
}

// Until is [converge.Until] with the file's time limits and a hint on how to extend them.
func Until(ctx context.Context, s *spec.Spec, r converge.WaitRule, look converge.Condition) error {
	r.Limit = Limit(s, r.Limit)
	r.Hint = strings.TrimPrefix(r.Hint+"\n  "+TimeoutHint(s), "\n  ")
	return converge.Until(ctx, r, look)
}

// Retry returns the result of a check before a graph. It waits for a host or an API that does not
// answer, like the graph's steps.
func Retry[T any](ctx context.Context, s *spec.Spec, look func(context.Context) (T, error)) (out T, err error) {
	rule := converge.WaitRule{What: "observing", Limit: askedTime, Strict: true, TimeoutText: "no complete answer"}
	err = Until(ctx, s, rule, func(ctx context.Context) (string, error) {
		out, err = look(ctx)
		return "", err
	})
	return out, err
}
