package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// applier is kustomize-controller: it applies folders of Git, waits, and deletes what went from them
// (internal/controller/kustomization_controller.go).
type applier struct {
	*instance
	jobs jobs
}

func kustomizeController(ctx context.Context, i *instance) (time.Duration, error) {
	a, ok := i.kept.(*applier)
	if !ok {
		a = &applier{instance: i}
		i.kept = a
	}
	list, err := all[unstructured.Unstructured](i, kustomizations())
	if err != nil {
		return 0, err
	}
	again := time.Duration(0)
	for _, u := range list {
		done, err := a.reconcile(ctx, u)
		if err != nil {
			return 0, err
		}
		if !done {
			again = time.Second
		}
	}
	return again, nil
}

// reconcile takes a step with one Kustomization, and reports whether nothing is left to do.
func (a *applier) reconcile(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	k, err := strictly[kustomizev1.Kustomization](u)
	if err == nil {
		err = notPlayed(k.Spec, "DependsOn", "Interval", "RetryInterval", "Path", "Prune", "DeletionPolicy", "SourceRef", "Suspend", "Timeout", "Wait", "HealthCheckExprs", "Decryption")
	}
	if err != nil {
		return true, a.ready(ctx, kustomizations(), u, "False", "BuildFailed", err.Error(), nil)
	}
	if u.GetDeletionTimestamp() != nil {
		return true, a.finalize(ctx, u, k)
	}
	if !slices.Contains(u.GetFinalizers(), finalizer) {
		return false, a.hold(ctx, u, true)
	}
	if k.Spec.Suspend {
		return true, nil
	}
	source, err := one[unstructured.Unstructured](a.instance, gitRepositories(), cmp.Or(k.Spec.SourceRef.Namespace, k.Namespace), k.Spec.SourceRef.Name)
	if err != nil {
		return false, err
	}
	if source == nil || k.Spec.SourceRef.Kind != sourcev1.GitRepositoryKind {
		return false, a.ready(ctx, kustomizations(), u, "False", "ArtifactFailed", k.Spec.SourceRef.Kind+".source.toolkit.fluxcd.io \""+k.Spec.SourceRef.Name+"\" not found", nil)
	}
	revision := object.Text(source, "status", "artifact", "revision")
	if revision == "" {
		return false, a.ready(ctx, kustomizations(), u, "False", "ArtifactFailed", "Source artifact not found, retrying in 30s", nil)
	}
	if isReady(u) && object.Text(u, "status", "lastAppliedRevision") == revision {
		return true, nil
	}
	if why, err := a.waitsFor(k, revision); err != nil || why != "" {
		return false, errors.Join(err, a.ready(ctx, kustomizations(), u, "False", "DependencyNotReady", why, nil))
	}
	retry := k.Spec.Interval.Duration
	if k.Spec.RetryInterval != nil {
		retry = k.Spec.RetryInterval.Duration
	}
	// A commit ends the wait for the one before it, if the controller runs with that feature.
	id := fmt.Sprint(k.Generation)
	if strings.Contains(a.argument("feature-gates"), "CancelHealthCheckOnNewRevision=true") {
		id += " " + revision
	}
	a.jobs.start(ctx, a.instance, u, id, retry, func(ctx context.Context) error { return a.run(ctx, u, k, source, revision) })
	return false, nil
}

// waitsFor says which dependency is not there yet (checkDependencies).
func (a *applier) waitsFor(k *kustomizev1.Kustomization, revision string) (string, error) {
	for _, d := range k.Spec.DependsOn {
		namespace := cmp.Or(d.Namespace, k.Namespace)
		name := namespace + "/" + d.Name
		on, err := one[unstructured.Unstructured](a.instance, kustomizations(), namespace, d.Name)
		switch {
		case err != nil:
			return "", err
		case on == nil:
			return fmt.Sprintf("dependency '%s' not found: Kustomization.kustomize.toolkit.fluxcd.io %q not found", name, d.Name), nil
		case !isReady(on):
			return fmt.Sprintf("dependency '%s' is not ready", name), nil
		case object.Text(on, "spec", "sourceRef", "name") == k.Spec.SourceRef.Name && object.Text(on, "status", "lastAppliedRevision") != revision:
			return fmt.Sprintf("dependency '%s' revision is not up to date", name), nil
		}
	}
	return "", nil
}

// run applies what a revision has, deletes what it has no longer, and waits.
func (a *applier) run(ctx context.Context, u *unstructured.Unstructured, k *kustomizev1.Kustomization, source *unstructured.Unstructured, revision string) error {
	failed := func(reason string, err error) error {
		if ctx.Err() != nil {
			reason, err = "HealthCheckCanceled", errors.New("New reconciliation triggered by "+source.GetKind()+"/"+source.GetNamespace()+"/"+source.GetName())
		}
		return errors.Join(err, a.ready(context.WithoutCancel(ctx), kustomizations(), u, "False", reason, err.Error(), nil))
	}
	if err := a.ready(ctx, kustomizations(), u, "Unknown", "Progressing", "Reconciliation in progress", nil); err != nil {
		return err
	}
	repo := a.artifacts.get(source.GetNamespace() + "/" + source.GetName() + "/" + revision)
	if repo == nil {
		return failed("ArtifactFailed", errors.New("Source is not ready, artifact not found, retrying in 30s"))
	}
	objects, err := a.built(ctx, k, repo)
	if err != nil {
		return failed("BuildFailed", err)
	}
	if err := a.applyAll(ctx, k, objects); err != nil {
		return failed("ReconciliationFailed", err)
	}
	var inventory []any
	for _, o := range objects {
		inventory = append(inventory, map[string]any{"id": inventoryID(o), "v": o.GroupVersionKind().Version})
	}
	err = a.ready(ctx, kustomizations(), u, "Unknown", "Progressing", "Reconciliation in progress",
		map[string]any{"lastAttemptedRevision": revision, "inventory": map[string]any{"entries": inventory}})
	if err != nil {
		return err
	}
	if k.Spec.Prune {
		if err := a.prune(ctx, u, objects); err != nil {
			return failed("PruneFailed", err)
		}
	}
	if k.Spec.Wait {
		if err := a.wait(ctx, k, objects); err != nil {
			return failed("HealthCheckFailed", err)
		}
	}
	return a.ready(ctx, kustomizations(), u, "True", "ReconciliationSucceeded", "Applied revision: "+revision, map[string]any{"lastAppliedRevision": revision})
}

// built are the objects of a folder, decrypted if that is asked for.
func (a *applier) built(ctx context.Context, k *kustomizev1.Kustomization, repo fs.FS) ([]*unstructured.Unstructured, error) {
	keys, err := a.importKeys(ctx, k)
	if err != nil {
		return nil, err
	}
	objects, err := kustomized(repo, path.Join(".", path.Clean("/" + k.Spec.Path)[1:]))
	if err == nil && keys != nil {
		err = keys.decryptAll(objects)
	}
	return objects, err
}

// Labels with which kustomize-controller marks what it applies.
const (
	ownerName      = "kustomize.toolkit.fluxcd.io/name"
	ownerNamespace = "kustomize.toolkit.fluxcd.io/namespace"
)

// applyAll applies objects: namespaces and definitions first. It waits until a kind is served.
func (a *applier) applyAll(ctx context.Context, k *kustomizev1.Kustomization, objects []*unstructured.Unstructured) error {
	if err := refuseEncrypted(objects); err != nil {
		return err
	}
	first := func(u *unstructured.Unstructured) int {
		return slices.Index([]string{"", "CustomResourceDefinition", "Namespace"}, u.GetKind())
	}
	slices.SortStableFunc(objects, func(x, y *unstructured.Unstructured) int { return first(y) - first(x) })
	for _, o := range objects {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[ownerName], labels[ownerNamespace] = k.Name, k.Namespace
		o.SetLabels(labels)
		const patience = 30 * time.Second
		err := a.applyOrRecreate(ctx, o)
		for until := time.Now().Add(patience); meta.IsNoMatchError(err) && time.Now().Before(until) && pause(ctx, time.Second); {
			err = a.applyOrRecreate(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("%s/%s/%s dry-run failed: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	return nil
}

// applyOrRecreate deletes an object that cannot be changed and may be recreated, and applies it again (fluxcd/pkg
// ssa/manager_apply.go, shouldForceApply).
func (a *applier) applyOrRecreate(ctx context.Context, o *unstructured.Unstructured) error {
	err := a.apply(ctx, o)
	if o.GetAnnotations()["kustomize.toolkit.fluxcd.io/force"] != "enabled" || !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		return err
	}
	client, err := a.client(o)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	if err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}); gone(err) != nil {
		return err
	}
	return a.apply(ctx, o)
}

// prune deletes what of the last inventory is in Git no longer.
func (a *applier) prune(ctx context.Context, u *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	stays := map[string]bool{}
	for _, o := range objects {
		stays[inventoryID(o)] = true
	}
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		id, _ := entry["id"].(string)
		version, _ := entry["v"].(string)
		if stays[id] {
			continue
		}
		o := inventoryObject(id, version)
		if o == nil {
			return fmt.Errorf("inventory: %q does not name an object", id)
		}
		if err := a.remove(ctx, u, o); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes an object that a Kustomization has applied, unless an annotation keeps it.
func (a *applier) remove(ctx context.Context, u, o *unstructured.Unstructured) error {
	client, err := a.client(o)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	there, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return gone(err)
	}
	labels := there.GetLabels()
	if labels[ownerName] != u.GetName() || labels[ownerNamespace] != u.GetNamespace() || there.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"] == "disabled" {
		return nil
	}
	a.Log.Info("flux deletes an object", "kustomization", u.GetName(), "kind", o.GetKind(), "object", o.GetNamespace()+"/"+o.GetName())
	background := metav1.DeletePropagationBackground
	return gone(client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}))
}

// finalize deletes what a deleted Kustomization has applied, if its policy says so.
func (a *applier) finalize(ctx context.Context, u *unstructured.Unstructured, k *kustomizev1.Kustomization) error {
	all := k.Spec.DeletionPolicy == kustomizev1.DeletionPolicyDelete || k.Spec.DeletionPolicy == kustomizev1.DeletionPolicyWaitForTermination
	if !k.Spec.Suspend && (all || k.Spec.Prune && k.Spec.DeletionPolicy != kustomizev1.DeletionPolicyOrphan) {
		if err := a.prune(ctx, u, nil); err != nil {
			return err
		}
	}
	return a.hold(ctx, u, false)
}

// claimMayWait is the one expression that is played: a claim that is Pending is in order.
const claimMayWait = "has(status.phase) && status.phase in ['Bound', 'Pending']"

// wait waits until all objects are in order.
func (a *applier) wait(ctx context.Context, k *kustomizev1.Kustomization, objects []*unstructured.Unstructured) error {
	pending := false
	for _, e := range k.Spec.HealthCheckExprs {
		if e.APIVersion != "v1" || e.Kind != "PersistentVolumeClaim" || e.Current != claimMayWait {
			return fmt.Errorf("the Flux of the lab does not play this: healthCheckExprs of %s: %s", e.Kind, e.Current)
		}
		pending = true
	}
	timeout := k.Spec.Interval.Duration
	if k.Spec.Timeout != nil {
		timeout = k.Spec.Timeout.Duration
	}
	var manifest strings.Builder
	for _, o := range objects {
		if o.GetKind() == "PersistentVolumeClaim" && pending {
			continue
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		manifest.WriteString("---\n" + string(text))
	}
	built := helmkube.ResourceList{}
	if manifest.Len() > 0 {
		var err error
		if built, err = a.resources(k.Namespace, manifest.String()); err != nil {
			return err
		}
	}
	began := time.Now()
	for {
		waits := a.unready(ctx, built)
		for _, o := range objects {
			if ok, err := a.current(ctx, o); err != nil {
				return err
			} else if !ok {
				waits = append(waits, fmt.Sprintf("%s/%s/%s status: 'InProgress'", o.GetKind(), o.GetNamespace(), o.GetName()))
			}
		}
		if len(waits) == 0 {
			return nil
		}
		if time.Since(began) > timeout || !pause(ctx, time.Second) {
			return fmt.Errorf("health check failed after %s: timeout waiting for: [%s]", time.Since(began).Round(time.Millisecond), strings.Join(waits, ", "))
		}
	}
}

// current reports whether an object with conditions is in order, by the rules of kstatus: its generation is
// observed, and Ready, if there is such a condition, is not false.
func (a *applier) current(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	client, err := a.client(o)
	if err != nil {
		return false, err
	}
	there, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	if seen, found, _ := unstructured.NestedInt64(there.Object, "status", "observedGeneration"); found && seen != there.GetGeneration() {
		return false, nil
	}
	list, _, _ := unstructured.NestedSlice(there.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" && m["status"] != "True" {
			return false, nil
		}
	}
	// Flux's kinds are born with an observed generation of -1.
	return len(list) > 0 || !strings.HasSuffix(there.GroupVersionKind().Group, ".toolkit.fluxcd.io") || object.Text(there, "spec", "type") == sourcev1.HelmRepositoryTypeOCI, nil
}
