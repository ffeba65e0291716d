package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const (
	// argoNamespace is where Argo CD runs. It reads Applications of no other namespace, unless it is told to.
	argoNamespace = "argocd"
	argoAPI       = "argoproj.io/v1alpha1"
	argoProject   = "homelab"

	// argoPrefix starts the names of our Applications, because those of others are in the same namespace.
	argoPrefix = "homelab-"
	// argoRoot starts the names of those of folders, which no bundle's does.
	argoRoot = "homelab-git-"

	argoSyncKey = "argocd.argoproj.io/sync-options"
	// argoCompareKey with this value compares by a dry run of the API server: the other ways find drift in
	// fields that it completes (docs/user-guide/diff-strategies.md).
	argoCompareKey, argoCompare = "argocd.argoproj.io/compare-options", "ServerSideDiff=true"
	argoHealthKey               = "argocd.argoproj.io/ignore-healthcheck"
)

const (
	argoRetryFirst = 10 * time.Second // after a failure; it doubles
	argoRetryMax   = time.Minute
)

// renderArgo writes bundles for Argo CD: a directory each, with an Application in argocd.yaml, and what it
// deploys beside it. The root names the Applications only.
//
// Everything that changes is behind the Application, not in it: while a sync fails it is repeated with the
// source that the Application had at first, only at a newer commit (controller/appcontroller.go,
// processRequestedAppOperation), so that values or a version in the Application could not be corrected.
func renderArgo(bundles []Bundle, o Options) (Tree, error) {
	t := Tree{"README.md": readme(bundles, o)}
	from, err := argoSource(o.Repo, o.Branch)
	if err != nil {
		return nil, err
	}
	var root []string
	for _, b := range bundles {
		files, err := b.argoFiles()
		if err != nil {
			return nil, err
		}
		if files[ToolArgo.BundleFile()], err = b.argoYAML(o, from); err != nil {
			return nil, err
		}
		if err := t.add(b, files); err != nil {
			return nil, err
		}
		root = append(root, path.Join(b.Name, ToolArgo.BundleFile()))
	}
	if t["kustomization.yaml"], err = kustomization(root); err != nil {
		return nil, err
	}
	t[ListFile] = t.list()
	return t, nil
}

// argoSource is what the source of every Application has.
func argoSource(repo, branch string) (map[string]any, error) {
	p, err := Remote{Tool: ToolArgo, URL: repo}.address()
	if err != nil {
		return nil, err
	}
	return map[string]any{"repoURL": p.fullURL(), "targetRevision": cmp.Or(branch, defaultBranch)}, nil
}

// argoFiles is what the Application of a bundle deploys: objects, or a chart that consists of ours.
func (b Bundle) argoFiles() (map[string][]byte, error) {
	if b.Release != nil {
		return b.argoChart()
	}
	objects := make([]*unstructured.Unstructured, len(b.Objects))
	for i, u := range b.Objects {
		objects[i] = staysInArgo(u)
	}
	files, err := b.files(objects)
	if err != nil {
		return nil, err
	}
	files["kustomization.yaml"], err = kustomization(slices.Sorted(maps.Keys(files)))
	return files, err
}

// argoChart writes a chart whose only dependency is the bundle's, which Argo CD downloads
// (reposerver/repository/repository.go, runHelmBuild), and the dependency's values.
func (b Bundle) argoChart() (map[string][]byte, error) {
	r := b.Release
	repo := r.Repo
	if strings.HasPrefix(repo, "oci://") {
		repo = strings.TrimSuffix(ociName(*r), "/"+r.Chart)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": argoPrefix + b.Name, "version": "0.0.0",
		"dependencies": []any{map[string]any{"name": r.Chart, "version": r.Version, "repository": repo}},
	})
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	files := map[string][]byte{"Chart.yaml": text}
	if len(r.Values) > 0 {
		files["values.yaml"], err = values(b, map[string]any{r.Chart: r.Values})
	}
	return files, err
}

// staysInArgo marks objects that Argo CD must never delete: with a definition go all objects of its kind, with
// a claim its data. A claim does not count for health, because one of a class with WaitForFirstConsumer is
// Pending until a pod uses it.
func staysInArgo(u *unstructured.Unstructured) *unstructured.Unstructured {
	claim := u.GetKind() == "PersistentVolumeClaim"
	if !claim && u.GetKind() != "CustomResourceDefinition" && u.GetKind() != "Namespace" {
		return u
	}
	notes := map[string]string{argoSyncKey: "Prune=false,Delete=false"}
	if claim {
		notes[argoHealthKey] = "true"
	}
	return withAnnotations(u, notes)
}

// argoYAML writes the Application of a bundle. It has no finalizer, so that what it deployed stays when it
// goes: with a finalizer Argo CD deletes the definitions of a chart too.
func (b Bundle) argoYAML(o Options, from map[string]any) ([]byte, error) {
	from = maps.Clone(from)
	from["path"] = path.Join(o.Path, b.Name)
	if b.Release != nil {
		from["helm"] = map[string]any{"releaseName": b.Release.Name}
	}
	spec := argoApply(from, b.Namespace)
	policy := spec["syncPolicy"].(map[string]any)
	policy["automated"] = map[string]any{"prune": !b.Keep, "selfHeal": false}
	// Objects of another Application are not taken from it.
	options := []any{"CreateNamespace=true", "ServerSideApply=true", "FailOnSharedResource=true"}
	var d document
	d.comment("%s. Generated from %s: change it there; README.md says how.", b.title(), o.Source)
	if b.Keep {
		d.comment("It holds data: what is no longer in it stays.")
	}
	if b.Release != nil {
		if h := quirksOf(b.Release.Chart); len(h.patches) > 0 {
			d.comment("Not drift: %s.", h.why)
			options = append(options, "RespectIgnoreDifferences=true")
			var ignored []any
			for _, p := range h.patches {
				gv, err := schema.ParseGroupVersion(p.APIVersion)
				if err != nil {
					return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
				}
				ignored = append(ignored, map[string]any{"group": gv.Group, "kind": p.Kind, "jsonPointers": texts(p.JsonPointers)})
			}
			spec["ignoreDifferences"] = ignored
		}
	}
	policy["syncOptions"] = options
	u := b.withPart(newObject(argoAPI, "Application", argoNamespace, ApplicationOf(b.Name), spec))
	u.SetAnnotations(map[string]string{argoCompareKey: argoCompare})
	text, err := manifest(u)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	return append(d.bytes(), text...), nil
}

// argoApply is what all our Applications have in common. A sync that fails is repeated without end, with the
// newest commit: Argo CD has no order between Applications, so a bundle is tried until what it needs is there.
func argoApply(source map[string]any, namespace string) map[string]any {
	return map[string]any{
		"project":     argoProject,
		"source":      source,
		"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": namespace},
		"syncPolicy": map[string]any{
			"automated": map[string]any{"prune": false, "selfHeal": false},
			"retry": map[string]any{"limit": int64(-1), "refresh": true,
				"backoff": map[string]any{"duration": argoRetryFirst.String(), "factor": int64(2), "maxDuration": argoRetryMax.String()}},
		},
	}
}
