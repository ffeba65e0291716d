package cluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const (
	byDex = `
tls: {source: acme, email: ops@lab.example, server: "https://ca.lab.example/directory"}
login:
  hostname: login.lab.example
  adminGroups: [staff]
  clusterRoles: {staff: cluster-admin}
  github: {clientID: of-github, clientSecret: env:CLIENT_SECRET}
argocd: {hostname: argocd.lab.example}
`
	byProvider = `
tls: {source: acme, email: ops@lab.example, server: "https://ca.lab.example/directory"}` + loginOfProvider
	loginOfProvider = `
login:
  adminGroups: [staff]
  clusterRoles: {staff: cluster-admin}
  provider: {issuer: "https://id.lab.example/realms/lab", clientID: lab, clientSecret: env:CLIENT_SECRET, clients: {kubectl: {clientID: kubectl}}}
argocd: {hostname: argocd.lab.example}
`
)

// TestLoginOfProvider: a cluster whose login changes from Dex to a provider, to another one, and to none asks before each,
// and nothing of the login before is left but what Dex has stored; in between nothing is to be done.
func TestLoginOfProvider(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		t.Setenv("CLIENT_SECRET", "of-all-programs")
		w.up(t, parse(t, withPlatform(t, "one-gpu", byDex)))
		asks := func(text, part string) {
			t.Helper()
			all := w.costsOf(t, parse(t, text))
			require.Len(t, all, 1)
			assert.Equal(t, part, all[0].Machine)
			assert.Contains(t, strings.Join(converge.LossTexts(all[0].Holds), "; "), "whom the next login calls by another name is a new user of the hub")
			w.up(t, parse(t, text))
			assert.Empty(t, w.plan(t, parse(t, text)))
		}
		text := withPlatform(t, "one-gpu", byProvider)
		asks(text, "dex")
		api := w.api(t)
		dex := appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "dex", Name: "dex"}}
		assert.ErrorIs(t, api.Get(t.Context(), &dex), kube.ErrNotFound)
		assert.Equal(t, []string{"homelab-provider"}, bindings(t, api))

		asks(strings.Replace(text, "realms/lab", "realms/other", 1), "login-provider")
		asks(withPlatform(t, "one-gpu", byDex), "login-provider")
		assert.Equal(t, []string{"homelab-login"}, bindings(t, api))
		require.NoError(t, api.Get(t.Context(), &dex))
		assert.NotContains(t, w.output.String(), "of-all-programs")
	})
}

// bindings are the prefixes of the names of the rights that groups of the login have.
func bindings(t *testing.T, api *kube.Client) (out []string) {
	t.Helper()
	all, err := api.List(t.Context(), "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "")
	require.NoError(t, err)
	for _, o := range all {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if name, _ := s.(map[string]any)["name"].(string); strings.HasPrefix(name, "login:") {
				out = append(out, o.GetName()[:strings.LastIndexByte(o.GetName(), '-')])
			}
		}
	}
	return out
}
