package parts

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// TestRetiredRancherLogin: Rancher's provider stays without what homelab set, so that Rancher sees it disabled; without
// Rancher there is nothing to do.
func TestRetiredRancherLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, _, _ := failing(t)
		ref := kube.Ref{APIVersion: "management.cattle.io/v3", Kind: "AuthConfig", Name: "genericoidc"}
		record := Record{Part: "rancher-login", After: []kube.Ref{ref}}
		require.NoError(t, s.RetirePart(t.Context(), record))

		apply := func(o map[string]any) {
			_, err := client.Apply(t.Context(), &unstructured.Unstructured{Object: o})
			require.NoError(t, err)
		}
		apply(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "authconfigs.management.cattle.io"},
			"spec": map[string]any{"group": "management.cattle.io", "scope": "Cluster", "names": map[string]any{"plural": "authconfigs", "kind": "AuthConfig"},
				"versions": []any{map[string]any{"name": "v3", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}})
		require.NoError(t, s.RetirePart(t.Context(), record), "it is not there")
		apply(map[string]any{"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "labels": map[string]any{"app.kubernetes.io/managed-by": "homelab"}},
			"enabled": true, "issuer": "https://login.example.org"})
		costs := s.Retires(t.Context(), client, record, "no longer in the file")
		require.Len(t, costs, 1)
		require.Len(t, costs[0].Holds, 1)
		assert.Contains(t, costs[0].Holds[0].Text, "Rancher's users")

		require.NoError(t, s.RetirePart(t.Context(), record))
		left := objectOf(ref)
		require.NoError(t, client.Get(t.Context(), left))
		assert.NotContains(t, left.Object, "enabled")
		assert.NotContains(t, left.Object, "issuer")
		assert.Empty(t, left.GetLabels())
	})
}
