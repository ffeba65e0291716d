package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// restartedAt is the annotation that kubectl rollout restart sets.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// RestartSecretUsers restarts the Deployments, StatefulSets and DaemonSets of a namespace with
// pods that read one of the named Secrets at startup, and returns them. Kubernetes does
// not do that by itself when a Secret changes.
func (c *Client) RestartSecretUsers(ctx context.Context, namespace string, secrets ...string) ([]Ref, error) {
	var out []Ref
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		all, err := c.List(ctx, "apps/v1", kind, namespace, "")
		if err != nil {
			return out, err
		}
		for i := range all {
			if !reads(&all[i], secrets) {
				continue
			}
			err := c.patch(ctx, "restart", &all[i], map[string]any{"spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{restartedAt: time.Now().UTC().Format(time.RFC3339)}}}}})
			if err != nil {
				return out, err
			}
			out = append(out, refOf(&all[i]))
		}
	}
	return out, nil
}

// reads reports whether the pods of a workload read one of the Secrets.
func reads(u *unstructured.Unstructured, secrets []string) bool {
	raw, _, _ := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	var spec corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return false
	}
	has := func(name string) bool { return slices.Contains(secrets, name) }
	for _, v := range spec.Volumes {
		if v.Secret != nil && has(v.Secret.SecretName) {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil && has(s.Secret.Name) }) {
			return true
		}
	}
	for _, ct := range slices.Concat(spec.InitContainers, spec.Containers) {
		if slices.ContainsFunc(ct.EnvFrom, func(e corev1.EnvFromSource) bool { return e.SecretRef != nil && has(e.SecretRef.Name) }) {
			return true
		}
		if slices.ContainsFunc(ct.Env, func(e corev1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && has(e.ValueFrom.SecretKeyRef.Name)
		}) {
			return true
		}
	}
	return false
}
