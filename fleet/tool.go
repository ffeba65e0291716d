package fleet

import (
	"cmp"
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// Tool is the program in the cluster that deploys what is in Git.
type Tool string

// The tools that there are. Empty means ToolFleet.
const (
	ToolFleet Tool = "fleet"
	ToolFlux  Tool = "flux"
	ToolArgo  Tool = "argocd"
)

// Tools are all of them.
func Tools() []Tool { return []Tool{ToolFleet, ToolFlux, ToolArgo} }

// orDefault is the tool itself, or Fleet.
func (t Tool) orDefault() Tool { return cmp.Or(t, ToolFleet) }

// Title is the tool's name, for people.
func (t Tool) Title() string {
	switch t {
	case ToolFlux:
		return "Flux"
	case ToolArgo:
		return "Argo CD"
	}
	return "Fleet"
}

// BundleFile is the file that makes a directory a bundle.
func (t Tool) BundleFile() string { return string(t.orDefault()) + ".yaml" }

// Uninstalls reports whether the tool deletes what it deployed when a bundle goes.
func (t Tool) Uninstalls() bool { return t != ToolArgo }

// Source is what the tool in a cluster is told to deploy: repository, branch and folders; without folders if nothing.
func (t Tool) Source(ctx context.Context, k *kube.Client) (GitRepo, error) {
	switch t {
	case ToolFlux:
		return fluxSourceOf(ctx, k)
	case ToolArgo:
		return argoSourceOf(ctx, k)
	}
	u := fleetObject("GitRepo", localNamespace, defaultRepoName)
	if there, err := exists(k.Get(ctx, u)); err != nil || !there {
		return GitRepo{}, err
	}
	paths, _, err := unstructured.NestedStringSlice(u.Object, "spec", "paths")
	return GitRepo{Tool: t, URL: textAt(u, "spec", "repo"), Branch: textAt(u, "spec", "branch"), Paths: paths}, err
}

// exists reports whether a look at an object has found it.
func exists(err error) (bool, error) {
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, new(*kube.NoKindError)) {
		return false, nil
	}
	return err == nil, err
}

func textAt(u *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, fields...)
	return s
}

// IsAt reports whether a repository and branch are those of another, however their URLs are written.
func (g GitRepo) IsAt(other GitRepo) bool {
	url := func(g GitRepo) string {
		if p, err := (Remote{URL: g.URL}).address(); err == nil {
			return p.fullURL()
		}
		return g.URL
	}
	return url(g) == url(other) && cmp.Or(g.Branch, defaultBranch) == cmp.Or(other.Branch, defaultBranch)
}

// LetGo is what a person types so that the tool forgets a bundle of [StateKept], without uninstalling anything:
// a HelmRelease that is suspended, and an Application without a finalizer, go alone.
func (t Tool) LetGo(bundle string) string {
	if t == ToolArgo {
		return "kubectl -n " + argoNamespace + " delete applications.argoproj.io " + ApplicationOf(bundle)
	}
	at := "kubectl -n " + fluxNamespace + " "
	return at + "patch helmrelease " + bundle + " --type merge -p '{\"spec\":{\"suspend\":true}}' && " + at + "delete helmrelease,helmrepository " + bundle
}
