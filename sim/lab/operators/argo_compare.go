package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// comparison is how an Application is, beside what Git wants.
type comparison struct {
	sync, health string
	resources    []any
	prunes       []*unstructured.Unstructured // no longer in Git
	onlyPrune    bool                         // everything else is as in Git
}

// compare looks at every object of an Application, and at those that it had and that left Git.
func (a *argo) compare(ctx context.Context, u *unstructured.Unstructured, app *application, b *argoBuild) (*comparison, error) {
	c := &comparison{sync: "Synced", health: "Healthy", resources: []any{}, onlyPrune: true}
	params, err := a.config(ctx, "argocd-cmd-params-cm")
	if err != nil {
		return nil, err
	}
	persist := params["controller.resource.health.persist"] == "true"
	wanted := map[string]bool{}
	for _, o := range b.objects {
		wanted[inventoryID(o)] = true
		live, err := a.live(ctx, o)
		if err != nil {
			return nil, err
		}
		health, why := healthOf(live)
		differs, err := a.differs(ctx, app, o, live)
		if err != nil {
			return nil, err
		}
		status := "Synced"
		if differs {
			status, c.sync, c.onlyPrune = "OutOfSync", "OutOfSync", false
		}
		c.add(o, status, health, why, persist, o.GetAnnotations()["argocd.argoproj.io/ignore-healthcheck"] == "true")
	}
	old, _, _ := unstructured.NestedSlice(u.Object, "status", "resources")
	for _, r := range old {
		o := referred(r)
		if wanted[inventoryID(o)] {
			continue
		}
		live, err := a.live(ctx, o)
		if err != nil {
			return nil, err
		}
		if live == nil || trackedBy(live) != app.Name {
			continue
		}
		c.sync, c.prunes = "OutOfSync", append(c.prunes, live)
		c.resources = append(c.resources, reference(o, map[string]any{"status": "OutOfSync", "requiresPruning": true}))
	}
	return c, nil
}

// add adds the state of an object. Its health is in the status only if Argo CD is told to keep it there.
func (c *comparison) add(o *unstructured.Unstructured, status, health, why string, persist, ignored bool) {
	entry := map[string]any{"status": status}
	if health != "" && persist {
		entry["health"] = map[string]any{"status": health, "message": why}
	}
	order := []string{"Healthy", "Progressing", "Missing", "Degraded"}
	if health != "" && !ignored && slices.Index(order, health) > slices.Index(order, c.health) {
		c.health = health
	}
	c.resources = append(c.resources, reference(o, entry))
}

// reference names an object as a status does.
func reference(o *unstructured.Unstructured, more map[string]any) map[string]any {
	gvk := o.GroupVersionKind()
	for key, value := range map[string]string{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind, "namespace": o.GetNamespace(), "name": o.GetName()} {
		if value != "" {
			more[key] = value
		}
	}
	return more
}

// referred is the object that a status names.
func referred(r any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.Object, _ = r.(map[string]any)
	return object.New(strings.TrimPrefix(object.Text(u, "group")+"/"+object.Text(u, "version"), "/"), object.Text(u, "kind"), object.Text(u, "namespace"), object.Text(u, "name"), nil)
}

// trackedBy names the Application that deployed an object.
func trackedBy(live *unstructured.Unstructured) string {
	name, _, _ := strings.Cut(live.GetAnnotations()[trackingKey], ":")
	return name
}

// live reads an object; nil: it is not there.
func (a *argo) live(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := a.client(o)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, gone(err)
	}
	return live, nil
}

// differs compares an object with what the API server would make of it, without fields that are not to count.
func (a *argo) differs(ctx context.Context, app *application, o, live *unstructured.Unstructured) (bool, error) {
	if live == nil {
		return true, nil
	}
	client, err := a.client(o)
	if err != nil {
		return false, err
	}
	then, err := client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: a.program.name, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, fmt.Errorf("Failed to compare desired state to live state: failed to calculate diff: error calculating server side diff: %w", err)
	}
	live = live.DeepCopy()
	for _, x := range []*unstructured.Unstructured{live, then} {
		unstructured.RemoveNestedField(x.Object, "status")
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(x.Object, "metadata", field)
		}
		for _, ignored := range app.Spec.IgnoreDifferences {
			for _, pointer := range ignored.JSONPointers {
				if ignored.Group == o.GroupVersionKind().Group && ignored.Kind == o.GetKind() {
					without(x.Object, strings.Split(strings.TrimPrefix(pointer, "/"), "/"))
				}
			}
		}
	}
	return !reflect.DeepEqual(live.Object, then.Object), nil
}

// without removes what a JSON pointer points at.
func without(v any, path []string) {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
			return
		}
		without(v[path[0]], path[1:])
	case []any:
		var n int
		if json.Unmarshal([]byte(path[0]), &n) == nil && n < len(v) && len(path) > 1 {
			without(v[n], path[1:])
		}
	}
}

// healthOf judges an object as gitops-engine's pkg/health does, of kinds that homelab's parts have; empty: it
// has no health.
func healthOf(live *unstructured.Unstructured) (health, why string) {
	if live == nil {
		return "Missing", ""
	}
	number := func(path ...string) int64 { n, _, _ := unstructured.NestedInt64(live.Object, path...); return n }
	wants := int64(1)
	if n, set, _ := unstructured.NestedInt64(live.Object, "spec", "replicas"); set {
		wants = n
	}
	ok, judged := true, true
	switch live.GetKind() {
	case "Deployment":
		ok = number("status", "observedGeneration") >= live.GetGeneration() && number("status", "updatedReplicas") >= wants && number("status", "availableReplicas") >= wants
	case "StatefulSet":
		ok = number("status", "observedGeneration") >= live.GetGeneration() && number("status", "readyReplicas") >= wants
	case "DaemonSet":
		ok = number("status", "observedGeneration") >= live.GetGeneration() && number("status", "numberAvailable") >= number("status", "desiredNumberScheduled")
	case "Job":
		ok = object.IsTrue(live, "Complete")
	case "PersistentVolumeClaim":
		ok = object.Text(live, "status", "phase") == "Bound"
	case "Service", "Ingress":
		addresses, _, _ := unstructured.NestedSlice(live.Object, "status", "loadBalancer", "ingress")
		ok = len(addresses) > 0 || live.GetKind() == "Service" && object.Text(live, "spec", "type") != "LoadBalancer"
	case "Issuer", "ClusterIssuer", "Certificate":
		ok = object.IsTrue(live, "Ready")
	default:
		judged = false
	}
	switch {
	case !judged:
		return "", ""
	case ok:
		return "Healthy", ""
	case live.GetKind() == "Job" && object.IsTrue(live, "Failed"):
		return "Degraded", "the job failed"
	}
	return "Progressing", "it is not ready yet"
}
