package kueue

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// refusal is why pods with claims of their own are never admitted, in Kueue's words; empty: they have none.
// Kueue v0.19.2 counts a claim of a template if its configuration maps the class to a resource
// (deviceClassMappings, pkg/dra/claims.go), which homelab's does not, and no other claim
// (pkg/controller/core/workload_controller.go). Requests by the name of an extended resource are counted by that name.
func (m *Manager) refusal(ctx context.Context, l *load) (string, error) {
	for i, c := range l.claims {
		if c.ResourceClaimTemplateName == nil {
			return "KueueDRAIntegration feature does not support use of resource claims", nil
		}
		templates := m.Dynamic.Resource(schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaimtemplates"})
		t, err := templates.Namespace(l.object.GetNamespace()).Get(ctx, *c.ResourceClaimTemplateName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("ResourceClaimTemplate %s is missing", *c.ResourceClaimTemplateName), nil
		} else if err != nil {
			return "", fmt.Errorf("template of a claim: %w", err)
		}
		requests, _, _ := unstructured.NestedSlice(t.Object, "spec", "spec", "devices", "requests")
		if len(requests) == 0 {
			continue
		}
		class, _, _ := unstructured.NestedString(requests[0].(map[string]any), "exactly", "deviceClassName")
		return fmt.Sprintf("spec.podSets[0].template.spec.resourceClaims[%d].resourceClaimTemplateName: Not found: "+
			`"DeviceClass %s is not mapped in DRA configuration for podset main"`, i, class), nil
	}
	return "", nil
}
