package kueue

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Admit does to a new object what the chart's admission policies do (sim/lab/charts/kueue, admission.yaml),
// for an API server that does not evaluate policies: where they are, pods and Jobs of a queue, or of a
// namespace with a queue called default, wait. get reads an object by its resource and group.
func Admit(obj map[string]any, get func(resource, namespace, name string) map[string]any) error {
	u := &unstructured.Unstructured{Object: obj}
	kind := strings.ToLower(u.GetKind())
	if api := u.GetAPIVersion() + " " + kind; api != "v1 pod" && api != "batch/v1 job" ||
		slices.ContainsFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "Job" }) {
		return nil
	}
	door := "default"
	if u.GetLabels()[queueLabel] != "" {
		door = "named"
	} else if get("localqueues.kueue.x-k8s.io", u.GetNamespace(), door) == nil {
		return nil
	}
	policy := get("mutatingadmissionpolicies.admissionregistration.k8s.io", "", "kueue-"+kind+"-"+door)
	if policy == nil || !concerns(policy, get("namespaces", "", u.GetNamespace())) {
		return nil
	}
	set := u.GetLabels()
	if set == nil {
		set = map[string]string{}
	}
	if set[managedLabel] = "true"; door == "default" {
		set[queueLabel] = "default"
	}
	u.SetLabels(set)
	if kind == "job" {
		return unstructured.SetNestedField(obj, true, "spec", "suspend")
	}
	if !slices.Contains(u.GetFinalizers(), podFinalizer) {
		u.SetFinalizers(append(u.GetFinalizers(), podFinalizer))
	}
	gates, _, err := unstructured.NestedSlice(obj, "spec", "schedulingGates")
	if err != nil {
		return err
	}
	return unstructured.SetNestedSlice(obj, append(gates, map[string]any{"name": gate}), "spec", "schedulingGates")
}

// concerns reports whether a policy is about the objects of a namespace.
func concerns(policy, namespace map[string]any) bool {
	constraint, _, _ := unstructured.NestedMap(policy, "spec", "matchConstraints", "namespaceSelector")
	var selector metav1.LabelSelector
	b, err := json.Marshal(constraint)
	if err != nil || json.Unmarshal(b, &selector) != nil {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && s.Matches(labels.Set((&unstructured.Unstructured{Object: namespace}).GetLabels()))
}
