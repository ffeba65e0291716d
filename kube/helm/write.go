package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// writeAll applies objects in Helm's order, those of one rank at the same time. It waits for
// definitions of kinds before it continues.
func (c cluster) writeAll(ctx context.Context, objs []*unstructured.Unstructured) error {
	for i := 0; i < len(objs); {
		j := i
		for j < len(objs) && rank(objs[j].GetKind()) == rank(objs[i].GetKind()) {
			j++
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(parallelChanges)
		for _, u := range objs[i:j] {
			g.Go(func() error { return c.write(gctx, u) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		crds := slices.DeleteFunc(slices.Clone(objs[i:j]), func(u *unstructured.Unstructured) bool { return u.GetKind() != "CustomResourceDefinition" })
		if err := c.awaitReady(ctx, crds); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// write applies an object. It retries if a webhook does not answer yet, often one of the same
// chart, or the API server does not answer for a moment: applying again is harmless.
func (c cluster) write(ctx context.Context, u *unstructured.Unstructured) error {
	recreated := false
	return waitUntilNone(ctx, func(ctx context.Context) ([]string, error) {
		_, err := c.helm.ServerSideApply(ctx, u)
		var noKind *kube.NoKindError
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &noKind):
			return nil, fmt.Errorf("%w: install the chart that brings it first", err)
		case errors.Is(err, kube.ErrWebhook):
			return []string{err.Error()}, nil
		case u.GetKind() == "Secret" && repeats(err):
			return nil, fmt.Errorf("apply %s: %s: its type cannot be changed, and its keys and values must be proper ones", kube.RefOf(u), maskError(u, err))
		case u.GetKind() == "Job" && errors.Is(err, kube.ErrInvalid) && !recreated:
			// A Job is immutable. If the wanted Job differs, it has to run again.
			recreated = true
			if err := c.removeBatch(ctx, []*unstructured.Unstructured{u}); err != nil {
				return nil, err
			}
			return []string{kube.RefOf(u).String() + " is recreated"}, nil
		}
		return nil, err
	})
}

// repeats reports whether an error may repeat the contents of the request.
func repeats(err error) bool {
	var e *kube.Error
	return errors.As(err, &e) && (e.Kind == nil || errors.Is(err, kube.ErrInvalid))
}
