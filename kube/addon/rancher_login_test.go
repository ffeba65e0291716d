package addon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube/addon"
)

// TestRancherLogin: the part waits for Rancher's first start, takes its secret from Dex, and leaves alone a provider
// that a person has set up.
func TestRancherLogin(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		p := must(t, addon.RancherLogin{Platform: &spec.Platform{Login: &spec.Login{Hostname: "login.example.org", AdminGroups: []string{"staff"}},
			Rancher: &spec.Rancher{Hostname: "rancher.example.org"}}}, addon.Site{})
		apply := func(o map[string]any) {
			_, err := s.Apply(t.Context(), &unstructured.Unstructured{Object: o})
			require.NoError(t, err)
		}
		provider := func(labels map[string]any, enabled bool) {
			apply(map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "AuthConfig", "metadata": map[string]any{"name": "genericoidc", "labels": labels},
				"type": "genericOIDCConfig", "enabled": enabled, "issuer": "https://id.example.org"})
		}
		_, err := p.Resolve(t.Context(), s.Client)
		require.ErrorContains(t, err, "Rancher has not finished its first start")
		assert.True(t, converge.IsTransient(err))

		apply(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "authconfigs.management.cattle.io"},
			"spec": map[string]any{"group": "management.cattle.io", "scope": "Cluster", "names": map[string]any{"plural": "authconfigs", "kind": "AuthConfig"},
				"versions": []any{map[string]any{"name": "v3", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}})
		provider(nil, false)
		for _, namespace := range []string{"cattle-global-data", "dex"} {
			apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
		}
		_, err = p.Resolve(t.Context(), s.Client)
		require.ErrorContains(t, err, "the secret of rancher at Dex")

		apply(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "dex", "name": "dex-clients"}, "stringData": map[string]any{"rancher": "hush"}})
		late, err := p.Resolve(t.Context(), s.Client)
		require.NoError(t, err)
		require.Len(t, late.Secrets, 1)
		require.Len(t, late.Secrets[0].Data, 1, "Rancher takes any key of it")
		assert.Equal(t, "hush", late.Secrets[0].Data["clientsecret"].Reveal())

		provider(nil, true)
		_, err = p.Resolve(t.Context(), s.Client)
		assert.True(t, converge.IsPermanent(err))
		require.EqualError(t, err, "people sign in to Rancher by https://id.example.org, which homelab did not set up: disable that provider in Rancher (Users & Authentication, Auth Provider), or remove login or rancher from the file")

		provider(map[string]any{"app.kubernetes.io/managed-by": "homelab"}, true)
		_, err = p.Resolve(t.Context(), s.Client)
		require.NoError(t, err)
	})
}
