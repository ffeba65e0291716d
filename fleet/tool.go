package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"

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

// Reads reports whether the tool in a cluster is told to deploy a folder of the repository.
func (t Tool) Reads(ctx context.Context, k *kube.Client, folder string) (bool, error) {
	u := fleetObject("GitRepo", localNamespace, defaultRepoName)
	switch t {
	case ToolFlux:
		u = newObject(fluxKustomize, "Kustomization", fluxNamespace, rootName(folder), nil)
	case ToolArgo:
		u = newObject(argoAPI, "Application", argoNamespace, argoRootName(folder), nil)
	}
	err := k.Get(ctx, u)
	if errors.Is(err, kube.ErrNotFound) || errors.As(err, new(*kube.NoKindError)) {
		return false, nil
	}
	if err != nil || t.orDefault() != ToolFleet {
		return err == nil, err
	}
	paths, _, err := unstructured.NestedStringSlice(u.Object, "spec", "paths")
	return slices.Contains(paths, folder), err
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
