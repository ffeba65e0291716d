package helm

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// Uninstall removes a release and waits until its objects are gone. A missing release is not
// an error. Definitions of kinds in a chart's crds folder stay, and so do objects that the
// chart marks to be kept, and the namespace. After an interruption, call it again and it
// continues.
func (c *Client) Uninstall(ctx context.Context, namespace, name string) error {
	return c.uninstallWithin(ctx, namespace, name, false)
}

// UninstallKeepingKinds is Uninstall that leaves every definition of a kind: with it all its objects would go, no matter
// whose they are.
func (c *Client) UninstallKeepingKinds(ctx context.Context, namespace, name string) error {
	return c.uninstallWithin(ctx, namespace, name, true)
}

func (c *Client) uninstallWithin(ctx context.Context, namespace, name string, keepsKinds bool) error {
	within, cancel := converge.WithRunningTimeout(ctx, defaultTimeout, fmt.Errorf("not gone within %s", defaultTimeout))
	defer cancel()
	history, err := c.history(within, namespace, name)
	if err != nil || len(history) == 0 {
		return err
	}
	if err := c.uninstall(within, history, keepsKinds); err != nil {
		return fmt.Errorf("uninstall release %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (c *Client) uninstall(ctx context.Context, history []*release.Release, keepsKinds bool) error {
	last := history[len(history)-1]
	// An interrupted revision may have created more than the last deployed one.
	var objs []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, rel := range slices.Backward(history) {
		some, err := c.wantedObjects(ctx, rel.Manifest, rel.Name, rel.Namespace)
		if err != nil {
			return err
		}
		for _, u := range some {
			if stays := keepsKinds && u.GetKind() == "CustomResourceDefinition"; !stays && !seen[key(u)] {
				seen[key(u)] = true
				objs = append(objs, u)
			}
		}
		if rel.Info.Status == release.StatusDeployed {
			last = rel
			break
		}
	}
	if err := c.note(ctx, last, release.StatusUninstalling, "Deletion in progress"); err != nil {
		return err
	}
	if err := c.runHooks(ctx, last, release.HookPreDelete); err != nil {
		return err
	}
	if err := c.removeOurs(ctx, last, objs); err != nil {
		return err
	}
	if err := c.runHooks(ctx, last, release.HookPostDelete); err != nil {
		return err
	}
	all, err := c.revisions(ctx, last.Namespace, last.Name)
	if err != nil {
		return err
	}
	return c.deleteRecords(ctx, last.Namespace, last.Name, all...)
}

// removeOurs deletes the objects of objs that belong to a release and do not outlive it, and
// waits until they are gone.
func (c *Client) removeOurs(ctx context.Context, rel *release.Release, objs []*unstructured.Unstructured) error {
	words := make([]*unstructured.Unstructured, 0, len(objs))
	for _, u := range objs {
		live, err := c.find(ctx, u)
		if err != nil {
			return err
		}
		if live == nil || !ownedBy(live, rel.Name, rel.Namespace) || outlivesRelease(live) || outlivesRelease(u) {
			continue
		}
		words = append(words, u)
	}
	return c.remove(ctx, words)
}

// remove deletes objects, last ones first, and waits until they are gone. Custom resources go
// first, because their controllers must still run to release them; the definitions of kinds go
// last.
func (c cluster) remove(ctx context.Context, objs []*unstructured.Unstructured) error {
	objs, err := c.existing(ctx, objs)
	if err != nil || len(objs) == 0 {
		return err
	}
	converge.Progressf(ctx, "removing %s", firstReasons(names(objs)))
	batches := make([][]*unstructured.Unstructured, 3)
	for _, u := range objs {
		batch := 1
		switch {
		case u.GetKind() == "CustomResourceDefinition":
			batch = 2
		case rank(u.GetKind()) == rank("none of Helm's"):
			batch = 0
		}
		batches[batch] = append(batches[batch], u)
	}
	for _, batch := range batches {
		if err := c.removeBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// existing returns the objects that exist.
func (c cluster) existing(ctx context.Context, objs []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	lives := make([]*unstructured.Unstructured, len(objs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelLooks)
	for i, u := range objs {
		g.Go(func() (err error) { lives[i], err = c.find(ctx, u); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for i, u := range objs {
		if lives[i] != nil {
			out = append(out, u)
		}
	}
	return out, nil
}

func names(objs []*unstructured.Unstructured) []string {
	out := make([]string, len(objs))
	for i, u := range objs {
		out[i] = kube.RefOf(u).String()
	}
	return out
}

func (c cluster) removeBatch(ctx context.Context, objs []*unstructured.Unstructured) error {
	if len(objs) == 0 {
		return nil
	}
	list := make([]runtime.Object, len(objs))
	for i, u := range objs {
		list[i] = u
	}
	if err := patiently(ctx, func(ctx context.Context) error { return c.helm.Delete(ctx, list...) }); err != nil {
		return err
	}
	return c.awaitGone(ctx, objs)
}
