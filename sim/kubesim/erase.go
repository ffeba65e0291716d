package kubesim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/kubesim/internal/control"
)

// serveDelete answers a DELETE: the object if it is still there, a Status if it is gone.
func (c server) serveDelete(t target, e *entry, options metav1.DeleteOptions) (any, int, error) {
	if s := t.query.Get("gracePeriodSeconds"); s != "" && options.GracePeriodSeconds == nil {
		_ = json.Unmarshal([]byte(s), &options.GracePeriodSeconds)
	}
	if policy := metav1.DeletionPropagation(t.query.Get("propagationPolicy")); policy != "" && options.PropagationPolicy == nil {
		options.PropagationPolicy = &policy
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != e.u().GetResourceVersion() {
		return nil, 0, apierrors.NewConflict(t.kind.resource(), t.name, errStale)
	}
	still := e
	if len(options.DryRun) == 0 && !t.dryRun {
		still = c.erase(e, options)
	}
	if still != nil && still.u().GetDeletionTimestamp() != nil {
		return still.obj, http.StatusOK, nil
	}
	details := map[string]any{"name": t.name, "kind": t.kind.plural, "uid": e.uid}
	if t.kind.Group != "" {
		details["group"] = t.kind.Group
	}
	out := success()
	out["details"] = details
	return out, http.StatusOK, nil
}

// deleteAll deletes the objects of a collection that are selected.
func (c server) deleteAll(t target, body []byte) (any, int, error) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, 0, apierrors.NewBadRequest(err.Error())
		}
	}
	list, code, err := c.list(t)
	if err != nil || t.dryRun {
		return list, code, err
	}
	for _, item := range list.(map[string]any)["items"].([]any) {
		u := &unstructured.Unstructured{Object: item.(map[string]any)}
		if e := c.get(t.kind, u.GetNamespace(), u.GetName()); e != nil {
			c.erase(e, options)
		}
	}
	return list, code, nil
}

// erase deletes an object as the API server does: a pod on a node ends first, which its kubelet
// says by deleting it at once; a namespace empties first; what has finalizers waits for them. It
// returns the object that is still there, or nil.
func (c *Cluster) erase(e *entry, o metav1.DeleteOptions) *entry {
	u := &unstructured.Unstructured{Object: maps.Clone(e.obj)}
	u.Object["metadata"] = maps.Clone(e.obj["metadata"].(map[string]any))
	grace := int64(0)
	switch e.kind.Kind {
	case "Pod":
		grace = graceOf(entryAs[corev1.Pod](e), o.GracePeriodSeconds)
	case "Namespace":
		if u.GetDeletionTimestamp() != nil {
			return e
		}
		u.Object["status"] = map[string]any{"phase": string(corev1.NamespaceTerminating)}
		return c.startDeletion(e, u, 0)
	case "CustomResourceDefinition":
		u.SetFinalizers(appendNew(u.GetFinalizers(), crdCleanup))
	}
	if policy := o.PropagationPolicy; policy != nil && *policy == metav1.DeletePropagationOrphan {
		u.SetFinalizers(appendNew(u.GetFinalizers(), metav1.FinalizerOrphanDependents))
	} else if policy != nil && *policy == metav1.DeletePropagationForeground {
		u.SetFinalizers(appendNew(u.GetFinalizers(), metav1.FinalizerDeleteDependents))
	}
	if len(u.GetFinalizers()) == 0 && grace == 0 {
		c.purge(e)
		return nil
	}
	if was := u.GetDeletionGracePeriodSeconds(); was != nil && *was <= grace && slices.Equal(u.GetFinalizers(), e.u().GetFinalizers()) {
		return e // it is ending already, and no later
	}
	return c.startDeletion(e, u, grace)
}

// startDeletion says of an object that it ends.
func (c *Cluster) startDeletion(e *entry, u *unstructured.Unstructured, grace int64) *entry {
	at := metav1.NewTime(time.Now().UTC().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	u.SetDeletionTimestamp(&at)
	if e.kind.Kind != "Namespace" {
		u.SetDeletionGracePeriodSeconds(&grace)
	}
	return c.put(e.kind, u.Object)
}

// purge takes an object out of the store, with what only it stood for.
func (c *Cluster) purge(e *entry) {
	name := e.u().GetName()
	switch e.kind.Kind {
	case "Pod":
		c.machines.quit(e.uid)
	case "Node":
		c.machines.forget(name)
	case "CustomResourceDefinition":
		c.kinds = slices.DeleteFunc(c.kinds, func(k kind) bool { return k.custom && k.id() == name })
	}
	c.remove(e)
}

// graceOf is how long a pod may take to end: CheckGracefulDelete of pkg/registry/core/pod/strategy.go.
func graceOf(p *corev1.Pod, asked *int64) int64 {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	switch {
	case asked != nil:
		grace = *asked
	case p.Spec.TerminationGracePeriodSeconds != nil:
		grace = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || control.Ended(p) {
		return 0
	}
	if grace < 0 {
		return 1
	}
	return grace
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(slices.Clone(list), s)
}
