package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// prune removes the bundles of a repository that are no longer in it.
func (g *deployer) prune(ctx context.Context, repo *api.GitRepo, seen *repoSeen) error {
	list, err := g.Dynamic.Resource(bundles().gvr()).Namespace(repo.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "fleet.cattle.io/repo-name=" + repo.Name})
	if err != nil {
		return fmt.Errorf("bundles: %w", err)
	}
	for n := range list.Items {
		name := list.Items[n].GetName()
		if slices.ContainsFunc(seen.bundles, func(b fleetread.Bundle) bool { return b.Name == name }) {
			continue
		}
		if err := g.remove(ctx, &list.Items[n]); err != nil {
			return err
		}
	}
	return nil
}

// removeOthers removes the bundles of deleted GitRepos.
func (g *deployer) removeOthers(ctx context.Context, repos []*api.GitRepo) error {
	list, err := g.Dynamic.Resource(bundles().gvr()).Namespace(fleetLocalNamespace).List(ctx, metav1.ListOptions{LabelSelector: "fleet.cattle.io/repo-name"})
	if err != nil {
		return fmt.Errorf("bundles: %w", err)
	}
	for n := range list.Items {
		of := list.Items[n].GetLabels()["fleet.cattle.io/repo-name"]
		if slices.ContainsFunc(repos, func(r *api.GitRepo) bool { return r.Name == of }) {
			continue
		}
		if err := g.remove(ctx, &list.Items[n]); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a bundle, and its release as Fleet would.
func (g *deployer) remove(ctx context.Context, b *unstructured.Unstructured) error {
	g.mu.Lock()
	delete(g.state, b.GetName())
	g.mu.Unlock()
	on, err := g.Dynamic.Resource(bundleDeployments().gvr()).Namespace(clusterNamespace).Get(ctx, b.GetName(), metav1.GetOptions{})
	if gone(err) != nil {
		return fmt.Errorf("bundle %s: %w", b.GetName(), err)
	}
	if err == nil {
		at, _, _ := strings.Cut(object.Text(on, "status", "release"), ":")
		if namespace, name, ok := strings.Cut(at, "/"); ok {
			g.Log.Info("a bundle is removed", "bundle", b.GetName(), "release", at)
			if err := g.uninstall(b.GetName(), namespace, name); err != nil {
				return err
			}
		}
		if err := gone(g.Dynamic.Resource(bundleDeployments().gvr()).Namespace(clusterNamespace).Delete(ctx, b.GetName(), metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("bundle %s: %w", b.GetName(), err)
		}
	}
	if err := gone(g.Dynamic.Resource(bundles().gvr()).Namespace(b.GetNamespace()).Delete(ctx, b.GetName(), metav1.DeleteOptions{})); err != nil {
		return fmt.Errorf("bundle %s: %w", b.GetName(), err)
	}
	return nil
}

// gone reports whether something was removed already, which counts as success.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
