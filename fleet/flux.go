package fleet

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// fluxNamespace has the Flux objects that homelab makes: its own, so that no name can be one
	// of an existing Flux setup, which are in flux-system.
	fluxNamespace = "homelab-flux"

	fluxSystem = "flux-system" // where Flux itself runs

	fluxSource    = "source.toolkit.fluxcd.io/v1"
	fluxKustomize = "kustomize.toolkit.fluxcd.io/v1"
	fluxHelm      = "helm.toolkit.fluxcd.io/v2"

	// pruneKey with the value disabled keeps an object that is no longer in Git
	// (kustomize-controller docs/spec/v1/kustomizations.md, Prune).
	pruneKey = "kustomize.toolkit.fluxcd.io/prune"
	// forceKey with the value enabled recreates an object whose fields cannot change
	// (kustomize-controller internal/controller/kustomization_controller.go, ForceSelector).
	forceKey = "kustomize.toolkit.fluxcd.io/force"
)

const (
	fluxInterval = 10 * time.Minute // between two checks without a new commit
	fluxRetry    = 30 * time.Second // after a failure
	fluxTimeout  = 15 * time.Minute // until everything of a bundle is ready
)

// renderFlux writes bundles for Flux: a directory each, with a Kustomization of Flux in flux.yaml, and
// what it applies beside it. The root names the Kustomizations only, so that each bundle is applied once,
// in its order, and that files of others are not applied at all.
func renderFlux(bundles []Bundle, o Options) (Tree, error) {
	t := Tree{"README.md": readme(bundles, o)}
	var root []string
	owner := map[string]string{} // bundles that make a namespace
	for _, b := range bundles {
		makes := false
		if first, made := owner[b.Namespace]; made && first != b.Name {
			if !slices.Contains(b.DependsOn, first) {
				b.DependsOn = append(slices.Clone(b.DependsOn), first)
			}
		} else if !slices.Contains(sharedNamespaces[:], b.Namespace) {
			owner[b.Namespace], makes = b.Name, true
		}
		if err := b.renderFlux(t, o, makes); err != nil {
			return nil, err
		}
		root = append(root, path.Join(b.Name, ToolFlux.BundleFile()))
	}
	text, err := kustomization(root)
	if err != nil {
		return nil, err
	}
	t["kustomization.yaml"] = text
	t[ListFile] = t.list()
	return t, nil
}

// renderFlux writes the directory of one bundle; with its namespace, if no bundle before it makes that.
func (b Bundle) renderFlux(t Tree, o Options, makesNamespace bool) error {
	objects := slices.Clone(b.Objects)
	if b.Release != nil {
		objects = b.fluxRelease()
	}
	if makesNamespace {
		ns := newObject("v1", "Namespace", "", b.Namespace, nil)
		if labels := b.fleetLabels(); len(labels) > 0 {
			ns.SetLabels(labels)
		}
		objects = append([]*unstructured.Unstructured{ns}, objects...)
	}
	for i, u := range objects {
		objects[i] = annotate(u)
	}
	files, err := b.files(objects)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(files))
	text, err := kustomization(names)
	if err != nil {
		return err
	}
	files["kustomization.yaml"] = text
	if files[ToolFlux.BundleFile()], err = b.fluxYAML(o); err != nil {
		return err
	}
	return t.add(b, files)
}

// annotate marks objects that Flux must never delete: with a definition go all objects of its kind, with a
// namespace everything in it. A storage class goes alone, and is recreated when its parameters change.
func annotate(u *unstructured.Unstructured) *unstructured.Unstructured {
	switch u.GetKind() {
	case "CustomResourceDefinition", "Namespace":
		return withAnnotations(u, map[string]string{pruneKey: "disabled"})
	case "StorageClass":
		return withAnnotations(u, map[string]string{forceKey: "enabled"})
	}
	return u
}

// fluxYAML writes the Kustomization of a bundle.
func (b Bundle) fluxYAML(o Options) ([]byte, error) {
	spec := fluxApply(path.Join(o.Path, b.Name))
	spec["prune"], spec["wait"] = !b.Keep, true
	if b.Keep {
		spec["deletionPolicy"] = "Orphan"
	}
	if len(b.DependsOn) > 0 {
		var all []any
		for _, name := range slices.Sorted(slices.Values(b.DependsOn)) {
			all = append(all, map[string]any{"name": name})
		}
		spec["dependsOn"] = all
	}
	if slices.ContainsFunc(b.Objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "PersistentVolumeClaim" }) {
		// A claim of a class with WaitForFirstConsumer is Pending until a pod uses it.
		spec["healthCheckExprs"] = []any{map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"current": "has(status.phase) && status.phase in ['Bound', 'Pending']"}}
	}
	text, err := manifest(b.withPart(newObject(fluxKustomize, "Kustomization", fluxNamespace, b.Name, spec)))
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	var d document
	d.comment("%s. Generated from %s: change it there; README.md says how.", b.title(), o.Source)
	if b.Keep {
		d.comment("It holds data: when the bundle is removed, its objects stay.")
	}
	return append(d.bytes(), text...), nil
}

// fluxApply is what all our Kustomizations have in common.
func fluxApply(folder string) map[string]any {
	return map[string]any{
		"interval": fluxInterval.String(), "retryInterval": fluxRetry.String(), "timeout": fluxTimeout.String(),
		"path": "./" + folder, "sourceRef": map[string]any{"kind": "GitRepository", "name": defaultRepoName},
	}
}

// fluxRelease returns the HelmRelease of a bundle, and the repository of its chart. Failures are retried
// in place: the usual remediation would uninstall a release whose first installation is only slow, with
// its volumes. Drift is reported and left, as with Fleet.
func (b Bundle) fluxRelease() []*unstructured.Unstructured {
	r := b.Release
	url := r.Repo
	from := map[string]any{"interval": "1h0m0s"}
	if strings.HasPrefix(url, "oci://") {
		url, from["type"] = strings.TrimSuffix(ociName(*r), "/"+r.Chart), "oci"
	}
	from["url"] = url
	retry := map[string]any{"name": "RetryOnFailure", "retryInterval": fluxRetry.String()}
	spec := map[string]any{
		"interval": fluxInterval.String(), "timeout": max(r.Timeout, fluxTimeout-time.Minute).String(),
		"releaseName": r.Name, "targetNamespace": r.Namespace, "storageNamespace": r.Namespace,
		"chart": map[string]any{"spec": map[string]any{
			"chart": r.Chart, "version": r.Version, "sourceRef": map[string]any{"kind": "HelmRepository", "name": b.Name},
		}},
		"install":        map[string]any{"crds": "CreateReplace", "strategy": retry},
		"upgrade":        map[string]any{"crds": "CreateReplace", "strategy": retry},
		"driftDetection": map[string]any{"mode": "warn"},
	}
	if len(r.Values) > 0 {
		spec["values"] = r.Values
	}
	return []*unstructured.Unstructured{
		b.withPart(newObject(fluxSource, "HelmRepository", fluxNamespace, b.Name, from)),
		b.withPart(newObject(fluxHelm, "HelmRelease", fluxNamespace, b.Name, spec)),
	}
}
