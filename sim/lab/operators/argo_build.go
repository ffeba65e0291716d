package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// trackingKey names the Application of an object, and the object itself.
const trackingKey = "argocd.argoproj.io/tracking-id"

// argoBuild is what a commit wants of an Application.
type argoBuild struct {
	commit        string
	objects       []*unstructured.Unstructured
	before, after []*unstructured.Unstructured // hooks PreSync and PostSync
}

// build makes the objects of an Application as the repository server does: of a chart, of a kustomization, or of
// plain files (reposerver/repository/repository.go, GenerateManifests).
func (a *argo) build(ctx context.Context, app *application, seen *gitSeen) (*argoBuild, error) {
	if seen.err != nil {
		return nil, seen.err
	}
	out, dir := &argoBuild{commit: seen.commit}, app.Spec.Source.Path
	if info, err := fs.Stat(seen.files, dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: app path does not exist", dir)
	}
	var err error
	if text, missing := fs.ReadFile(seen.files, path.Join(dir, "Chart.yaml")); missing == nil {
		err = a.template(ctx, app, seen.files, text, out)
	} else if _, missing = fs.Stat(seen.files, path.Join(dir, "kustomization.yaml")); missing == nil {
		out.objects, err = kustomized(seen.files, dir)
	} else {
		out.objects, err = plainObjects(seen.files, dir)
	}
	for _, o := range slices.Concat(out.objects, out.before, out.after) {
		if err == nil {
			err = a.place(o, app)
		}
	}
	return out, err
}

// plainObjects are those of the files of a folder, without its subfolders.
func plainObjects(files fs.FS, dir string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		objects, err := object.Documents(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// place sets the namespace of an object that names none, and the annotation by which it is the Application's
// (util/argo/resource_tracking.go). A kind that is not served yet is left as it is.
func (a *argo) place(o *unstructured.Unstructured, app *application) error {
	mapping, err := a.resource(o)
	if err != nil && !meta.IsNoMatchError(err) {
		return err
	}
	if err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace && o.GetNamespace() == "" {
		o.SetNamespace(app.Spec.Destination.Namespace)
	}
	notes := maps.Clone(o.GetAnnotations())
	if notes == nil {
		notes = map[string]string{}
	}
	notes[trackingKey] = fmt.Sprintf("%s:%s/%s:%s/%s", app.Name, o.GroupVersionKind().Group, o.GetKind(), cmp.Or(o.GetNamespace(), app.Spec.Destination.Namespace), o.GetName())
	o.SetAnnotations(notes)
	return nil
}

// template renders a chart with its dependencies, without a cluster to look things up in: helm dependency build
// and helm template.
func (a *argo) template(ctx context.Context, app *application, repo fs.FS, text []byte, out *argoBuild) error {
	ch, err := umbrella(repo, app.Spec.Source.Path, text)
	if err != nil {
		return err
	}
	version, err := a.Client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	run := action.NewInstall(&action.Configuration{})
	run.ReleaseName, run.Namespace = app.Name, app.Spec.Destination.Namespace
	if h := app.Spec.Source.Helm; h != nil {
		run.ReleaseName = cmp.Or(h.ReleaseName, app.Name)
	}
	run.ClientOnly, run.DryRun, run.IncludeCRDs = true, true, true
	if run.KubeVersion, err = chartutil.ParseKubeVersion(version.GitVersion); err != nil {
		return err
	}
	if run.APIVersions, err = a.served(); err != nil {
		return err
	}
	made, err := run.RunWithContext(ctx, ch, nil)
	if err != nil {
		return fmt.Errorf("Manifest generation error: `helm template . --name-template %s` failed: %w", run.ReleaseName, err)
	}
	if out.objects, err = object.Documents([]byte(made.Manifest)); err != nil {
		return err
	}
	for _, h := range made.Hooks {
		objects, err := object.Documents([]byte(h.Manifest))
		if err != nil {
			return err
		}
		for _, event := range h.Events { // gitops-engine pkg/sync/hook/helm/type.go
			switch event {
			case "pre-install", "pre-upgrade":
				out.before = merged(out.before, objects)
			case "post-install", "post-upgrade":
				out.after = merged(out.after, objects)
			}
		}
	}
	return nil
}

// merged adds objects that are not in a list.
func merged(list, more []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range more {
		if !slices.ContainsFunc(list, func(x *unstructured.Unstructured) bool { return inventoryID(x) == inventoryID(o) }) {
			list = append(list, o.DeepCopy())
		}
	}
	return list
}

// umbrella loads the chart of a folder, with the charts that it depends on.
func umbrella(repo fs.FS, dir string, text []byte) (*chart.Chart, error) {
	var c struct {
		APIVersion   string `json:"apiVersion"`
		Name         string `json:"name"`
		Version      string `json:"version"`
		Dependencies []struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			Repository string `json:"repository"`
		} `json:"dependencies"`
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, fmt.Errorf("%s/Chart.yaml: the Argo CD of the lab does not play this: %w", dir, err)
	}
	files := map[string][]byte{"Chart.yaml": text}
	if values, err := fs.ReadFile(repo, path.Join(dir, "values.yaml")); err == nil {
		files["values.yaml"] = values
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range c.Dependencies {
		theirs, err := remoteChart(fleetread.Remote{Repo: d.Repository, Chart: d.Name, Version: d.Version})
		if err != nil {
			return nil, fmt.Errorf("`helm dependency build` failed: %w", err)
		}
		for name, data := range theirs {
			files["charts/"+d.Name+"/"+name] = data
		}
	}
	return loadChart(files)
}

// served are the kinds that charts can ask for.
func (a *argo) served() (chartutil.VersionSet, error) {
	_, lists, err := a.Client.Discovery().ServerGroupsAndResources()
	if err != nil && len(lists) == 0 {
		return nil, err
	}
	var out chartutil.VersionSet
	for _, list := range lists {
		out = append(out, list.GroupVersion)
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				out = append(out, list.GroupVersion+"/"+r.Kind)
			}
		}
	}
	return out, nil
}
