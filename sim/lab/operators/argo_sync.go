package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// autoSync starts a sync, where one is due (controller/appcontroller.go, autoSync): never a second time for the
// same commit and source. It says why a sync that is due is not made.
func (a *argo) autoSync(ctx context.Context, u *unstructured.Unstructured, app *application, b *argoBuild, c *comparison) string {
	auto := app.Spec.SyncPolicy.Automated
	if auto == nil || auto.Enabled != nil && !*auto.Enabled || c.sync != "OutOfSync" || c.onlyPrune && !auto.Prune {
		return ""
	}
	phase, source := object.Text(u, "status", "operationState", "phase"), sourceMap(app.Spec.Source)
	done, _, _ := unstructured.NestedMap(u.Object, "status", "operationState", "syncResult", "source")
	if object.Text(u, "status", "operationState", "syncResult", "revision") == b.commit && reflect.DeepEqual(done, source) && phase != "Running" {
		if phase == "Failed" || phase == "Error" {
			return fmt.Sprintf("Failed last sync attempt to [%s]: %s", b.commit, object.Text(u, "status", "operationState", "message"))
		}
		return ""
	}
	if auto.Prune && len(c.prunes) == len(c.resources) && len(c.resources) > 0 {
		return fmt.Sprintf("Skipping sync attempt to [%s]: auto-sync will wipe out all resources", b.commit)
	}
	// The identity is constant, so that nothing stops a sync that is being repeated.
	a.jobs.start(ctx, a.instance, u, "", 0, func(ctx context.Context) error { return a.operate(ctx, u, app, b, c) })
	return ""
}

func sourceMap(s argoSource) map[string]any {
	out := map[string]any{"repoURL": s.RepoURL, "targetRevision": s.TargetRevision, "path": s.Path}
	if s.Helm != nil {
		out["helm"] = map[string]any{"releaseName": s.Helm.ReleaseName}
	}
	return out
}

// operate syncs until it succeeds, or the retries are used up. The source stays that of the start; the commit is
// the newest one at each retry, if retry.refresh is set (processRequestedAppOperation).
func (a *argo) operate(ctx context.Context, u *unstructured.Unstructured, app *application, b *argoBuild, c *comparison) error {
	retry := app.Spec.SyncPolicy.Retry
	state := map[string]any{"startedAt": time.Now().UTC().Format(time.RFC3339)}
	tell := func(phase, message string) error {
		state["phase"], state["message"] = phase, message
		return a.say(ctx, u, map[string]any{"operationState": state})
	}
	wait := retry.Backoff.Duration.Duration
	for attempt := int64(1); ; attempt++ {
		state["operation"] = map[string]any{"sync": map[string]any{"revision": b.commit, "prune": app.Spec.SyncPolicy.Automated.Prune}}
		delete(state, "syncResult")
		delete(state, "finishedAt")
		if err := tell("Running", "waiting for completion of the sync"); err != nil {
			return err
		}
		results, err := a.sync(ctx, app, b, c, func(why string) error { return tell("Running", why) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		state["finishedAt"] = time.Now().UTC().Format(time.RFC3339)
		state["syncResult"] = map[string]any{"revision": b.commit, "source": sourceMap(app.Spec.Source), "resources": results}
		if err == nil {
			return tell("Succeeded", "successfully synced (all tasks run)")
		}
		if retry.Limit >= 0 && attempt > retry.Limit {
			return tell("Failed", err.Error())
		}
		state["retryCount"] = attempt
		if err := tell("Running", fmt.Sprintf("%s. Retrying attempt #%d at %s.", err, attempt, time.Now().Add(wait).Format(time.Kitchen))); err != nil {
			return err
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		wait = min(wait*time.Duration(max(retry.Backoff.Factor, 1)), retry.Backoff.MaxDuration.Duration)
		if !retry.Refresh {
			continue
		}
		if newer, err := a.build(ctx, app, a.freshly(ctx, app)); err == nil {
			b = newer
		}
	}
}

// freshly reads the branch of an Application, beside the memory of the controller.
func (a *argo) freshly(ctx context.Context, app *application) *gitSeen {
	seen := &gitSeen{}
	from, err := a.access(ctx, app)
	if err == nil {
		seen.commit, seen.files, err = clone(ctx, from)
	}
	seen.err = err
	return seen
}

// sync is one attempt: hooks before, objects, what goes, and hooks after (gitops-engine pkg/sync/sync_context.go).
func (a *argo) sync(ctx context.Context, app *application, b *argoBuild, c *comparison, tell func(string) error) ([]any, error) {
	options, namespace := app.Spec.SyncPolicy.SyncOptions, app.Spec.Destination.Namespace
	if slices.Contains(options, "CreateNamespace=true") {
		there, err := a.live(ctx, object.New("v1", "Namespace", "", namespace, nil))
		if err == nil && there == nil {
			err = a.apply(ctx, object.New("v1", "Namespace", "", namespace, nil))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.unmet(ctx, app, b); err != nil {
		return nil, err
	}
	if err := a.hooks(ctx, b.before, tell); err != nil {
		return nil, err
	}
	results, err := a.applySorted(ctx, app, b.objects)
	if err != nil {
		return results, err
	}
	if app.Spec.SyncPolicy.Automated.Prune {
		if err := a.prune(ctx, app, b, c); err != nil {
			return results, err
		}
	}
	if len(b.after) == 0 {
		return results, nil
	}
	for _, o := range b.objects {
		for {
			live, err := a.live(ctx, o)
			if err != nil {
				return results, err
			}
			if health, _ := healthOf(live); health == "" || health == "Healthy" {
				break
			}
			err = tell("waiting for healthy state of " + o.GroupVersionKind().Group + "/" + o.GetKind() + "/" + o.GetName())
			if err != nil || !pause(ctx, time.Second) {
				return results, errors.Join(err, ctx.Err())
			}
		}
	}
	return results, a.hooks(ctx, b.after, tell)
}

// unmet refuses a sync before it changes anything: for kinds that are not served, and for objects of another
// Application.
func (a *argo) unmet(ctx context.Context, app *application, b *argoBuild) error {
	brought := map[string]bool{}
	for _, o := range b.objects {
		if o.GetKind() == "CustomResourceDefinition" {
			brought[object.Text(o, "spec", "group")+"/"+object.Text(o, "spec", "names", "kind")] = true
		}
	}
	for _, o := range b.objects {
		gvk := o.GroupVersionKind()
		if _, err := a.resource(o); meta.IsNoMatchError(err) && !brought[gvk.Group+"/"+gvk.Kind] {
			return fmt.Errorf("one or more synchronization tasks are not valid due to application controller sync timeout or kinds that are not installed: "+
				"The Kubernetes API could not find %s/%s for requested resource %s/%s. Make sure the %q CRD is installed on the destination cluster", gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName(), gvk.Kind)
		}
		live, err := a.live(ctx, o)
		if err != nil {
			return err
		}
		if live != nil && slices.Contains(app.Spec.SyncPolicy.SyncOptions, "FailOnSharedResource=true") {
			if other := trackedBy(live); other != "" && other != app.Name {
				return fmt.Errorf("Shared resource found: %s/%s is part of applications %s and %s", o.GetKind(), o.GetName(), app.Name, other)
			}
		}
	}
	return nil
}

// applySorted applies objects by their kinds, and names all that fail.
func (a *argo) applySorted(ctx context.Context, app *application, objects []*unstructured.Unstructured) ([]any, error) {
	order := []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
		"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service"}
	rank := func(o *unstructured.Unstructured) int {
		if n := slices.Index(order, o.GetKind()); n >= 0 {
			return n
		}
		return len(order)
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	var results []any
	var errs []string
	for _, o := range objects {
		const patience = 30 * time.Second
		err := a.placed(ctx, app, o)
		for until := time.Now().Add(patience); meta.IsNoMatchError(err) && time.Now().Before(until) && pause(ctx, time.Second); {
			err = a.placed(ctx, app, o)
		}
		entry := map[string]any{"status": "Synced", "syncPhase": "Sync"}
		if err != nil {
			entry["status"], entry["message"] = "SyncFailed", err.Error()
			errs = append(errs, err.Error())
		}
		results = append(results, reference(o, entry))
	}
	if len(errs) > 0 {
		return results, fmt.Errorf("one or more objects failed to apply, reason: %s", strings.Join(errs, ","))
	}
	return results, nil
}

// placed applies an object; its kind may be new.
func (a *argo) placed(ctx context.Context, app *application, o *unstructured.Unstructured) error {
	if err := a.place(o, app); err != nil {
		return err
	}
	return a.apply(ctx, o)
}

// prune deletes what left Git, unless an annotation keeps it.
func (a *argo) prune(ctx context.Context, app *application, b *argoBuild, c *comparison) error {
	for _, o := range c.prunes {
		live, err := a.live(ctx, o)
		if err != nil {
			return err
		}
		wanted := slices.ContainsFunc(b.objects, func(x *unstructured.Unstructured) bool { return inventoryID(x) == inventoryID(o) })
		if live == nil || wanted || trackedBy(live) != app.Name || strings.Contains(live.GetAnnotations()["argocd.argoproj.io/sync-options"], "Prune=false") {
			continue
		}
		a.Log.Info("argo cd deletes an object", "application", app.Name, "kind", o.GetKind(), "object", o.GetNamespace()+"/"+o.GetName())
		client, err := a.client(o)
		if err != nil {
			return err
		}
		foreground := metav1.DeletePropagationForeground
		if err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground}); gone(err) != nil {
			return err
		}
	}
	return nil
}

// hooks runs hooks by their weights: each is deleted and made again, and a job is waited for.
func (a *argo) hooks(ctx context.Context, hooks []*unstructured.Unstructured, tell func(string) error) error {
	weight := func(o *unstructured.Unstructured) int {
		n, _ := strconv.Atoi(o.GetAnnotations()["helm.sh/hook-weight"])
		return n
	}
	hooks = slices.Clone(hooks)
	slices.SortStableFunc(hooks, func(x, y *unstructured.Unstructured) int { return weight(x) - weight(y) })
	for _, h := range hooks {
		client, err := a.client(h)
		if err != nil {
			return err
		}
		background := metav1.DeletePropagationBackground
		remove := func() error {
			err := client.Delete(ctx, h.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
			for ; err == nil && pause(ctx, 200*time.Millisecond); _, err = client.Get(ctx, h.GetName(), metav1.GetOptions{}) {
			}
			return gone(err)
		}
		if err := remove(); err != nil {
			return err
		}
		if err := a.apply(ctx, h); err != nil {
			return err
		}
		for h.GetKind() == "Job" {
			live, err := client.Get(ctx, h.GetName(), metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if err != nil || object.IsTrue(live, "Complete") { // a job may delete itself when it is over
				break
			}
			if object.IsTrue(live, "Failed") {
				text, _ := json.Marshal(live.Object["status"])
				return fmt.Errorf("one or more synchronization tasks completed unsuccessfully, reason: job %s failed: %s", h.GetName(), text)
			}
			if err := tell("waiting for completion of hook batch/Job/" + h.GetName()); err != nil {
				return err
			}
			if !pause(ctx, 500*time.Millisecond) {
				return ctx.Err()
			}
		}
		if strings.Contains(h.GetAnnotations()["helm.sh/hook-delete-policy"], "hook-succeeded") {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	return nil
}
