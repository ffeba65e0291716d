package operators

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	fleet "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"helm.sh/helm/v3/pkg/action"
	records "helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/fleetread"
	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// releaser is helm-controller: it installs, upgrades and uninstalls releases with Helm
// (internal/controller/helmrelease_controller.go, internal/reconcile).
type releaser struct {
	*instance
	jobs jobs
}

func helmController(ctx context.Context, i *instance) (time.Duration, error) {
	r, ok := i.kept.(*releaser)
	if !ok {
		r = &releaser{instance: i}
		i.kept = r
	}
	list, err := all[unstructured.Unstructured](i, helmReleases())
	if err != nil {
		return 0, err
	}
	again := time.Duration(0)
	for _, u := range list {
		done, err := r.reconcile(ctx, u)
		if err != nil {
			return 0, err
		}
		if !done {
			again = time.Second
		}
	}
	return again, nil
}

// reconcile takes a step with one HelmRelease, and reports whether nothing is left to do.
func (r *releaser) reconcile(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	h, err := strictly[helmv2.HelmRelease](u)
	if err == nil {
		err = releasePlayed(h)
	}
	if err != nil {
		return true, r.ready(ctx, helmReleases(), u, "False", "ArtifactFailed", err.Error(), nil)
	}
	if u.GetDeletionTimestamp() != nil {
		return false, r.finalize(ctx, u, h)
	}
	if !slices.Contains(u.GetFinalizers(), finalizer) {
		return false, r.hold(ctx, u, true)
	}
	if h.Spec.Suspend || isReady(u) {
		return true, nil
	}
	ref := h.Spec.Chart.Spec.SourceRef
	from, err := one[unstructured.Unstructured](r.instance, helmRepositories(), cmp.Or(ref.Namespace, h.Namespace), ref.Name)
	if err != nil {
		return false, err
	}
	if from == nil || object.Text(from, "spec", "type") != sourcev1.HelmRepositoryTypeOCI && !isReady(from) {
		return false, r.ready(ctx, helmReleases(), u, "False", "SourceNotReady", "HelmChart '"+h.Namespace+"/"+h.Namespace+"-"+h.Name+"' is not ready", nil)
	}
	const otherwise = 5 * time.Minute // the retry interval that is none (api/v2, GetRetryInterval)
	retry := otherwise
	if s := h.GetInstall().Strategy; s != nil && s.RetryInterval != nil {
		retry = s.RetryInterval.Duration
	}
	r.jobs.start(ctx, r.instance, u, fmt.Sprint(h.Generation), retry, func(ctx context.Context) error { return r.run(ctx, u, h, from) })
	return false, nil
}

// releasePlayed refuses what is not played.
func releasePlayed(h *helmv2.HelmRelease) error {
	if h.Spec.Chart == nil {
		return errors.New("the Flux of the lab does not play this: a HelmRelease without spec.chart")
	}
	err := errors.Join(notPlayed(h.Spec, "Chart", "Interval", "Suspend", "ReleaseName", "TargetNamespace", "StorageNamespace", "Timeout", "DriftDetection", "Install", "Upgrade", "Values"),
		notPlayed(h.Spec.Chart.Spec, "Chart", "Version", "SourceRef"))
	if h.Spec.Install != nil {
		err = errors.Join(err, notPlayed(*h.Spec.Install, "Strategy", "CRDs", "CreateNamespace"))
	}
	if h.Spec.Upgrade != nil {
		err = errors.Join(err, notPlayed(*h.Spec.Upgrade, "Strategy", "CRDs"))
	}
	if ref := h.Spec.Chart.Spec.SourceRef; ref.Kind != sourcev1.HelmRepositoryKind {
		err = errors.Join(err, errors.New("the Flux of the lab does not play this: charts of a "+ref.Kind))
	}
	return err
}

// run installs or upgrades a release, and waits for its objects. A release that Helm has of another owner is
// taken over by an upgrade (internal/reconcile/state.go, ReleaseStatusUnmanaged).
func (r *releaser) run(ctx context.Context, u *unstructured.Unstructured, h *helmv2.HelmRelease, from *unstructured.Unstructured) error {
	namespace, name, timeout := h.GetReleaseNamespace(), h.GetReleaseName(), h.GetTimeout().Duration
	failed := func(reason string, err error) error {
		return errors.Join(err, r.ready(ctx, helmReleases(), u, "False", reason, err.Error(), nil))
	}
	url, spec := object.Text(from, "spec", "url"), h.Spec.Chart.Spec
	files, err := remoteChart(fleetread.Remote{Repo: url, Chart: spec.Chart, Version: spec.Version})
	if err != nil {
		return failed("ArtifactFailed", err)
	}
	ch, err := loadChart(files)
	if err != nil {
		return failed("ArtifactFailed", err)
	}
	cfg, _, err := r.helm(h.GetStorageNamespace())
	if err != nil {
		return failed("FactoryError", err)
	}
	what, title := "upgrade", "Upgrade"
	if _, err := cfg.Releases.Last(name); errors.Is(err, records.ErrReleaseNotFound) {
		what, title = "install", "Install"
	}
	if err := r.ready(ctx, helmReleases(), u, "Unknown", "Progressing", fmt.Sprintf("Running '%s' action with timeout of %s", what, timeout), nil); err != nil {
		return err
	}
	made, err := r.deployRelease(ctx, helmRun{name: name, namespace: namespace, chart: ch, values: h.GetValues(), history: h.GetMaxHistory(),
		options: fleet.HelmOptions{TakeOwnership: true}, makeNamespace: h.GetInstall().CreateNamespace, after: &originLabels{h.Namespace, h.Name}})
	if err == nil {
		err = r.settled(ctx, made, timeout)
	}
	if err != nil {
		return failed(title+"Failed", fmt.Errorf("Helm %s failed for release %s/%s with chart %s@%s: %w", what, namespace, name, ch.Name(), ch.Metadata.Version, err))
	}
	return r.ready(ctx, helmReleases(), u, "True", title+"Succeeded",
		fmt.Sprintf("Helm %s succeeded for release %s/%s.v%d with chart %s@%s", what, namespace, name, made.Version, ch.Name(), ch.Metadata.Version),
		map[string]any{"storageNamespace": h.GetStorageNamespace(), "lastAttemptedGeneration": h.Generation, "lastAttemptedRevision": ch.Metadata.Version,
			"history": []any{map[string]any{"name": name, "namespace": namespace, "version": made.Version, "chartName": ch.Name(), "chartVersion": ch.Metadata.Version, "status": "deployed"}}})
}

// finalize uninstalls the release of a deleted HelmRelease, unless that is suspended.
func (r *releaser) finalize(ctx context.Context, u *unstructured.Unstructured, h *helmv2.HelmRelease) error {
	history, _, _ := unstructured.NestedSlice(u.Object, "status", "history")
	if !h.Spec.Suspend && len(history) > 0 {
		cfg, _, err := r.helm(h.GetStorageNamespace())
		if err != nil {
			return err
		}
		r.Log.Info("flux uninstalls a release", "release", h.GetReleaseNamespace()+"/"+h.GetReleaseName())
		run := action.NewUninstall(cfg)
		run.Timeout = 30 * time.Second
		if _, err := run.Run(h.GetReleaseName()); err != nil && !errors.Is(err, records.ErrReleaseNotFound) {
			return r.ready(ctx, helmReleases(), u, "False", "UninstallFailed", err.Error(), nil)
		}
	}
	return r.hold(ctx, u, false)
}

// originLabels marks the objects of a release as those of a HelmRelease (internal/postrender/build.go).
type originLabels struct{ namespace, name string }

// Run is called by Helm.
func (l *originLabels) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := object.Documents(rendered.Bytes())
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, o := range objects {
		labels := maps.Clone(o.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels["helm.toolkit.fluxcd.io/name"], labels["helm.toolkit.fluxcd.io/namespace"] = l.name, l.namespace
		o.SetLabels(labels)
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		out.WriteString("---\n" + string(data))
	}
	return bytes.NewBufferString(out.String()), nil
}
