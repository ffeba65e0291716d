package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Intervals between two checks while waiting: short at first, because most objects are ready
// at once, then longer.
const (
	firstPoll = 200 * time.Millisecond
	everyLook = 2 * time.Second
)

// finalError is a failure that waiting does not fix.
type finalError struct{ error }

// Unwrap returns the failure.
func (e finalError) Unwrap() error { return e.error }

// waitUntilNone checks repeatedly until nothing is left to wait for. It also waits for an API server
// that does not answer, such as K3s' during a restart.
func waitUntilNone(ctx context.Context, looks func(context.Context) ([]string, error)) error {
	pause := firstPoll
	var last []string
	for {
		waiting, err := looks(ctx)
		switch {
		case ctx.Err() != nil:
			return stopReason(ctx, last)
		case converge.IsTransient(err):
			waiting = []string{err.Error()}
		case err != nil:
			return err
		case len(waiting) == 0:
			return nil
		}
		if !slices.Equal(waiting, last) {
			converge.Progressf(ctx, "waiting: %s", firstReasons(waiting))
		}
		last = waiting
		if converge.Pause(ctx, pause) != nil {
			return stopReason(ctx, last)
		}
		pause = min(pause*3/2, everyLook)
	}
}

// patiently retries an idempotent call while the API server does not answer.
func patiently(ctx context.Context, do func(context.Context) error) error {
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) { return nil, do(ctx) })
}

// find reads an object, with retries; nil if it or its kind does not exist.
func (c cluster) find(ctx context.Context, u *unstructured.Unstructured) (live *unstructured.Unstructured, err error) {
	err = patiently(ctx, func(ctx context.Context) (err error) { live, err = c.read(ctx, u); return err })
	return live, err
}

// stopReason says why waiting ended, and what it waited for.
func stopReason(ctx context.Context, waiting []string) error {
	if len(waiting) == 0 {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: still waiting: %s", context.Cause(ctx), firstReasons(waiting))
}

// firstReasons writes the first few reasons for waiting, and the number of the others.
func firstReasons(waiting []string) string {
	const most = 3
	if len(waiting) <= most {
		return strings.Join(waiting, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(waiting[:most], "; "), len(waiting)-most)
}

// awaitReady waits until every object is ready.
func (c cluster) awaitReady(ctx context.Context, objs []*unstructured.Unstructured) error {
	left := objs
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) {
		words, err := c.unready(ctx, left)
		if err != nil {
			return nil, err
		}
		var still []*unstructured.Unstructured
		var waiting []string
		for i, w := range words {
			if w != "" {
				still = append(still, left[i])
				waiting = append(waiting, w)
			}
		}
		left = still
		return waiting, nil
	})
}

// unready returns for each object why it is not ready, or nothing.
func (c cluster) unready(ctx context.Context, objs []*unstructured.Unstructured) ([]string, error) {
	words := make([]string, len(objs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLooks)
	for i, u := range objs {
		if !waitable(u) {
			continue
		}
		g.Go(func() error {
			live, err := c.read(ctx, u)
			if err != nil {
				return err
			}
			if live == nil {
				if !endsByItself(u) {
					words[i] = kube.RefOf(u).String() + " is not there"
				}
				return nil
			}
			why, err := c.unreadyReason(ctx, live)
			if why != "" {
				words[i] = kube.RefOf(u).String() + ": " + why
			}
			if hopeless(live, why) {
				return finalError{errors.New(words[i])}
			}
			return err
		})
	}
	return words, g.Wait()
}

// waitable reports whether an object becomes ready some time after it was created. Unlike
// Helm, we do not wait for the address of a Service of type LoadBalancer, because the chart
// does not provide it.
func waitable(u *unstructured.Unstructured) bool {
	switch u.GetKind() {
	case "Deployment", "DaemonSet", "StatefulSet", "Job", "Pod", "PersistentVolumeClaim", "CustomResourceDefinition", "APIService":
		return true
	}
	return false
}

// hopeless reports whether an object will never be ready.
func hopeless(live *unstructured.Unstructured, why string) bool {
	switch live.GetKind() {
	case "Job":
		return strings.HasPrefix(why, "it has failed")
	case "Pod":
		phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
		return phase == "Failed"
	}
	return false
}

// unreadyReason says why an object is not ready, with the reasons of its pods; nothing if it is
// ready.
func (c cluster) unreadyReason(ctx context.Context, live *unstructured.Unstructured) (string, error) {
	if paused, _, _ := unstructured.NestedBool(live.Object, "spec", "paused"); paused && live.GetKind() == "Deployment" {
		return "", nil // somebody has stopped it on purpose
	}
	why, err := kube.NotReadyReason(live)
	if err != nil || why == "" {
		return "", err
	}
	switch live.GetKind() {
	case "PersistentVolumeClaim":
		if first, err := c.waitsForConsumer(ctx, live); err != nil || first {
			return "", err
		}
		more, err := c.kube.LastWarning(ctx, kube.RefOf(live))
		return join(why, more), err
	case "Deployment", "DaemonSet", "StatefulSet", "Job":
		more, err := c.podsSay(ctx, live)
		return join(why, more), err
	}
	return why, nil
}

// nothingKnown is what package kube reports for a pod that only needs time.
const nothingKnown = "it is not ready yet"

func join(why, more string) string {
	if more == "" {
		return why
	}
	return why + ": " + more
}

// waitsForConsumer reports whether a claim gets its volume only when a pod uses it, and none
// does yet: then the pod's own state matters.
func (c cluster) waitsForConsumer(ctx context.Context, claim *unstructured.Unstructured) (bool, error) {
	if claim.GetAnnotations()["volume.kubernetes.io/selected-node"] != "" {
		return false, nil
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	if name == "" {
		return false, nil
	}
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("storage.k8s.io/v1")
	class.SetKind("StorageClass")
	class.SetName(name)
	live, err := c.read(ctx, class)
	if err != nil || live == nil {
		return false, err
	}
	mode, _ := live.Object["volumeBindingMode"].(string)
	return mode == "WaitForFirstConsumer", nil
}

// podsSay returns what blocks the first of a workload's pods that is not ready; without pods,
// the last warning of the workload's controller.
func (c cluster) podsSay(ctx context.Context, live *unstructured.Unstructured) (string, error) {
	labels, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels")
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	if len(pairs) == 0 {
		return "", nil
	}
	pods, err := c.kube.List(ctx, "v1", "Pod", live.GetNamespace(), strings.Join(pairs, ","))
	if err != nil {
		return "", err
	}
	for i := range pods {
		why, err := kube.NotReadyReason(&pods[i])
		if err == nil && why != "" && why != nothingKnown && pods[i].GetDeletionTimestamp() == nil {
			return "pod " + pods[i].GetName() + ": " + why, nil
		}
	}
	if len(pods) > 0 {
		return "", nil
	}
	return c.kube.LastWarning(ctx, kube.RefOf(live))
}

// awaitGone waits until objects that were deleted are gone.
func (c cluster) awaitGone(ctx context.Context, objs []*unstructured.Unstructured) error {
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) {
		words := make([]string, len(objs))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(parallelLooks)
		for i, u := range objs {
			g.Go(func() error {
				live, err := c.read(ctx, u)
				if err != nil || live == nil {
					return err
				}
				words[i] = kube.RefOf(u).String() + " is being deleted"
				if f := live.GetFinalizers(); len(f) > 0 {
					words[i] += ", which " + strings.Join(f, ", ") + " must allow"
				}
				return nil
			})
		}
		err := g.Wait()
		return slices.DeleteFunc(words, func(s string) bool { return s == "" }), err
	})
}
