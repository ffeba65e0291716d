package kueue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/sim/lab/kueue"
)

// TestAdmit: what waits, and what is left alone.
func TestAdmit(t *testing.T) {
	selector := map[string]any{"matchExpressions": []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": []any{"kube-system"}}}}
	policy := map[string]any{"spec": map[string]any{"matchConstraints": map[string]any{"namespaceSelector": selector}}}
	namespace := func(name string) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"kubernetes.io/metadata.name": name}}}
	}
	cluster := map[string]map[string]any{"localqueues.kueue.x-k8s.io student1/default": {}}
	for _, name := range []string{"kueue-pod-named", "kueue-pod-default", "kueue-job-named", "kueue-job-default"} {
		cluster["mutatingadmissionpolicies.admissionregistration.k8s.io /"+name] = policy
	}
	for _, name := range []string{"student1", "student2", "kube-system"} {
		cluster["namespaces /"+name] = namespace(name)
	}
	admit := func(namespace, queue, owner, kind string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": map[string]string{"Pod": "v1", "Job": "batch/v1"}[kind], "kind": kind, "spec": map[string]any{}}}
		u.SetNamespace(namespace)
		if queue != "" {
			u.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": queue})
		}
		if owner != "" {
			require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"kind": owner}}, "metadata", "ownerReferences"))
		}
		require.NoError(t, kueue.Admit(u.Object, func(resource, namespace, name string) map[string]any {
			return cluster[resource+" "+namespace+"/"+name]
		}))
		return u
	}
	waits := func(u *unstructured.Unstructured) string {
		gates, _, _ := unstructured.NestedSlice(u.Object, "spec", "schedulingGates")
		suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
		if (len(gates) > 0 || suspended) != (u.GetLabels()["kueue.x-k8s.io/managed"] == "true") {
			return "half"
		}
		if len(gates) == 0 && !suspended {
			return ""
		}
		return u.GetLabels()["kueue.x-k8s.io/queue-name"]
	}
	assert.Equal(t, "default", waits(admit("student1", "", "", "Pod")))
	assert.Equal(t, []string{"kueue.x-k8s.io/managed"}, admit("student1", "", "", "Pod").GetFinalizers())
	assert.Equal(t, "fast", waits(admit("student2", "fast", "", "Pod")))
	assert.Equal(t, "default", waits(admit("student1", "", "", "Job")))
	assert.Empty(t, waits(admit("student2", "", "", "Pod")), "no queue is called default there")
	assert.Empty(t, waits(admit("kube-system", "fast", "", "Pod")), "not a namespace of Kueue's")
	assert.Empty(t, waits(admit("student1", "", "Job", "Pod")), "its Job waits")
	assert.Equal(t, "default", waits(admit("student1", "", "ReplicaSet", "Pod")))
	clear(cluster)
	assert.Empty(t, waits(admit("student1", "fast", "", "Pod")), "Kueue is not installed")
}
