package addon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// ofCilium is the Gateway API by Cilium.
func ofCilium() spec.Ingress {
	return spec.Ingress{Kind: spec.IngressGateway, By: spec.GatewayCilium, Class: "cilium"}
}

// TestDefinitionsOfTheGatewayAPI: they are those that Cilium 1.20 looks for, without words, and K3s' Helm takes them over.
func TestDefinitionsOfTheGatewayAPI(t *testing.T) {
	p := must(t, addon.GatewayAPI{Ingress: ofCilium()}, addon.Site{})
	assert.True(t, p.Network && p.Keep)
	var names []string
	for _, o := range p.After {
		d := o.(*unstructured.Unstructured)
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		for _, v := range versions {
			if m := v.(map[string]any); m["name"] == "v1" && m["served"] == true {
				names = append(names, kind)
			}
			assert.NotContains(t, dig(v, "schema", "openAPIV3Schema"), "description", kind)
		}
		assert.Equal(t, "v1.6.1", d.GetAnnotations()["gateway.networking.k8s.io/bundle-version"])
		assert.Equal(t, []string{"Helm", "traefik-crd", "kube-system"}, []string{d.GetLabels()["app.kubernetes.io/managed-by"],
			d.GetAnnotations()["meta.helm.sh/release-name"], d.GetAnnotations()["meta.helm.sh/release-namespace"]}, kind)
	}
	assert.Equal(t, []string{"GatewayClass", "Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "ReferenceGrant", "BackendTLSPolicy"}, names)

	alone := must(t, addon.GatewayAPI{Ingress: ofCilium()}, addon.Site{NoTraefik: true})
	for _, o := range alone.After {
		assert.NotContains(t, o.(*unstructured.Unstructured).GetLabels(), "app.kubernetes.io/managed-by")
	}
}

// TestDefinitionsThatAreThere: older ones are replaced, and newer ones stay as they are if they serve what Cilium looks for.
func TestDefinitionsThatAreThere(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		p := must(t, addon.GatewayAPI{Ingress: ofCilium()}, addon.Site{})
		stays := func() (names []string) {
			t.Helper()
			for _, o := range p.After {
				stays, err := p.Stays(t.Context(), s.Client, o)
				require.NoError(t, err)
				if stays {
					names = append(names, o.(*unstructured.Unstructured).GetName())
				}
			}
			return names
		}
		assert.Empty(t, stays(), "nothing is there")
		for i, version := range []string{"v1.5.1", "v1.6.1", "v1.6.3", "new", "v2.0.0"} {
			there := p.After[i].(*unstructured.Unstructured).DeepCopy()
			there.SetAnnotations(map[string]string{"gateway.networking.k8s.io/bundle-version": version, "api-approved.kubernetes.io": "https://example.org"})
			if version == "v2.0.0" {
				versions, _, _ := unstructured.NestedSlice(there.Object, "spec", "versions")
				versions[0].(map[string]any)["name"] = "v2"
				require.NoError(t, unstructured.SetNestedSlice(there.Object, versions, "spec", "versions"))
			}
			_, err := s.Apply(t.Context(), there)
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"httproutes.gateway.networking.k8s.io"}, stays())
	})
}
