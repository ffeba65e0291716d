package addon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/addon"
)

// TestArgoCDPages: Argo CD takes Dex's tokens and gives groups its roles; with an authority that the cluster makes, the
// part waits for that, and gives it to Argo CD with the label by which Argo CD finds it.
func TestArgoCDPages(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		site := addon.Site{TLS: &spec.TLS{Source: spec.TLSSelfSigned, Issuer: "homelab"}, Ingress: traefik}
		configs := must(t, addon.ArgoCD{ArgoCD: paged(site.TLS).ArgoCD, Platform: paged(site.TLS)}, site).Release.Values["configs"].(map[string]any)
		assert.Equal(t, map[string]any{"timeout.reconciliation": "1m0s", "timeout.reconciliation.jitter": "0s", "url": "https://argocd.example.org",
			"oidc.config": "clientID: argocd\nissuer: https://login.example.org\nname: the cluster's login\nrootCA: $argocd-authority:ca.crt\n"}, configs["cm"])
		assert.Equal(t, "true", configs["params"].(map[string]any)["server.insecure"])
		assert.Equal(t, map[string]any{"policy.csv": `g, lab-example:staff, role:admin
g, c\d, role:admin
g, lab-example:students, role:readonly
g, "cn=""a, b""", role:readonly
`}, configs["rbac"])
		configs = must(t, addon.ArgoCD{ArgoCD: paged(site.TLS).ArgoCD, Platform: &spec.Platform{ArgoCD: paged(site.TLS).ArgoCD}}, addon.Site{}).Release.Values["configs"].(map[string]any)
		assert.NotContains(t, configs, "rbac")
		assert.Equal(t, "http://argocd.example.org", configs["cm"].(map[string]any)["url"])

		p := must(t, addon.ArgoCDPages{Platform: paged(site.TLS)}, site)
		apply := func(o map[string]any) {
			_, err := s.Apply(t.Context(), &unstructured.Unstructured{Object: o})
			require.NoError(t, err)
		}
		for _, namespace := range []string{"dex", "cert-manager"} {
			apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
		}
		apply(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "dex", "name": "dex-clients"}, "stringData": map[string]any{"argocd": "hush"}})
		_, err := p.Resolve(t.Context(), s.Client)
		require.ErrorContains(t, err, "the authority of Dex's certificate")
		apply(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "cert-manager", "name": "homelab-ca"}, "stringData": map[string]any{"tls.crt": "PEM"}})
		late, err := p.Resolve(t.Context(), s.Client)
		require.NoError(t, err)
		require.Len(t, late.Secrets, 3)
		assert.Equal(t, "hush", late.Secrets[1].Data["client-secret"].Reveal())
		assert.Equal(t, map[string]string{"app.kubernetes.io/part-of": "argocd"}, late.Secrets[2].Labels)
		assert.Equal(t, "PEM", late.Secrets[2].Data["ca.crt"].Reveal())
	})
}
