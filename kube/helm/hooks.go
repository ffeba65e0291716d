package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// runHooks runs the hooks of a revision for an event, by weight, one after the other, each
// until it has ended. Unlike Helm, a Job or Pod that an earlier run left behind is always
// recreated: a success in an earlier run proves nothing about this one.
func (c *Client) runHooks(ctx context.Context, rel *release.Release, event release.HookEvent) error {
	var hooks []*release.Hook
	for _, h := range rel.Hooks {
		if slices.Contains(h.Events, event) {
			hooks = append(hooks, h)
		}
	}
	slices.SortStableFunc(hooks, func(a, b *release.Hook) int {
		return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Name, b.Name))
	})
	for i, h := range hooks {
		if err := c.runHook(ctx, rel, h, event); err != nil {
			// The hooks before it succeeded.
			return errors.Join(err, c.cleanHooks(ctx, rel, hooks[:i], release.HookSucceeded))
		}
	}
	return c.cleanHooks(ctx, rel, hooks, release.HookSucceeded)
}

func (c *Client) runHook(ctx context.Context, rel *release.Release, h *release.Hook, event release.HookEvent) error {
	converge.Progressf(ctx, "%s hook %s %s", event, h.Kind, h.Name)
	fail := func(err error) error { return fmt.Errorf("%s hook %s: %w", event, h.Path, err) }
	objs, err := c.hookObjects(ctx, rel, h)
	if err != nil {
		return fail(err)
	}
	if err := c.remove(ctx, slices.DeleteFunc(slices.Clone(objs), func(u *unstructured.Unstructured) bool {
		return u.GetKind() != "Job" && u.GetKind() != "Pod" && !cleans(h, release.HookBeforeHookCreation)
	})); err != nil {
		return fail(err)
	}
	h.LastRun = release.HookExecution{StartedAt: helmtime.Now(), Phase: release.HookPhaseRunning}
	for _, u := range objs {
		if err = c.write(ctx, u); err != nil {
			break
		}
	}
	if err == nil {
		err = c.awaitEnd(ctx, objs)
	}
	h.LastRun.CompletedAt, h.LastRun.Phase = helmtime.Now(), release.HookPhaseSucceeded
	if err != nil {
		h.LastRun.Phase = release.HookPhaseFailed
		if ctx.Err() == nil {
			err = errors.Join(err, c.cleanHooks(ctx, rel, []*release.Hook{h}, release.HookFailed))
		}
		return fail(err)
	}
	return nil
}

// hookObjects reads a hook. Its objects are not marked as the release's, and are
// not removed with it.
func (c *Client) hookObjects(ctx context.Context, rel *release.Release, h *release.Hook) ([]*unstructured.Unstructured, error) {
	objs, err := objects(h.Manifest)
	if err != nil {
		return nil, err
	}
	for i, u := range objs {
		if objs[i], err = c.place(ctx, u, rel.Namespace); err != nil {
			return nil, err
		}
	}
	return objs, nil
}

// cleans reports whether a hook is deleted at a moment of its life. One without a policy is
// deleted before it runs again.
func cleans(h *release.Hook, policy release.HookDeletePolicy) bool {
	if len(h.DeletePolicies) == 0 {
		return policy == release.HookBeforeHookCreation
	}
	return slices.Contains(h.DeletePolicies, policy)
}

// cleanHooks deletes the hooks that a policy applies to.
func (c *Client) cleanHooks(ctx context.Context, rel *release.Release, hooks []*release.Hook, policy release.HookDeletePolicy) error {
	for _, h := range slices.Backward(hooks) {
		if !cleans(h, policy) {
			continue
		}
		objs, err := c.hookObjects(ctx, rel, h)
		if err == nil {
			err = c.remove(ctx, objs)
		}
		if err != nil {
			return fmt.Errorf("hook %s: %w", h.Path, err)
		}
	}
	return nil
}

// awaitEnd waits until hooks are done: Jobs and Pods have to end, anything else only has to
// exist.
func (c cluster) awaitEnd(ctx context.Context, objs []*unstructured.Unstructured) error {
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) {
		var waiting []string
		for _, u := range objs {
			why, err := c.running(ctx, u)
			if err != nil {
				return nil, err
			}
			if why != "" {
				waiting = append(waiting, kube.RefOf(u).String()+": "+why)
			}
		}
		return waiting, nil
	})
}

// running says what a hook still waits for, or that it failed.
func (c cluster) running(ctx context.Context, u *unstructured.Unstructured) (string, error) {
	ref := kube.RefOf(u)
	switch ref.Kind {
	case "Job":
		job, err := c.kube.JobState(ctx, ref.Namespace, ref.Name)
		switch {
		case err != nil:
			return "", err
		case job.Phase == kube.JobFailed:
			return "", finalError{fmt.Errorf("%s has failed: %s", ref, job.Reason)}
		case job.Phase == kube.JobSucceeded, job.Phase == kube.JobMissing && endsByItself(u):
			return "", nil
		case job.Phase == kube.JobMissing:
			return "", finalError{fmt.Errorf("%s was deleted while it ran", ref)}
		}
		return join("it is "+string(job.Phase), job.Reason), nil
	case "Pod":
		live, err := c.read(ctx, u)
		if err != nil {
			return "", err
		}
		if live == nil {
			return "", finalError{fmt.Errorf("%s was deleted while it ran", ref)}
		}
		phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
		why, err := kube.NotReadyReason(live)
		switch {
		case err != nil:
			return "", err
		case phase == "Succeeded":
			return "", nil
		case phase == "Failed":
			return "", finalError{fmt.Errorf("%s has failed: %s", ref, why)}
		case why == "":
			why = "it runs"
		}
		return why, nil
	}
	return "", nil
}
