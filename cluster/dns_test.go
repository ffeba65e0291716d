package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

const zonePlatform = `
tls: {source: acme, email: ops@lab.example, server: "https://ca.lab.example/directory"}
dns: {zones: [lab.example], records: true, cloudflare: env:CLOUDFLARE_TOKEN}
monitoring: {hostname: grafana.lab.example}
`

// solvers are those of the cluster's issuer, and token what they read.
func solvers(t *testing.T, api *kube.Client) (dns, token string) {
	t.Helper()
	issuer := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer"}}
	issuer.SetName("homelab")
	require.NoError(t, api.Get(t.Context(), issuer))
	all, _, err := unstructured.NestedSlice(issuer.Object, "spec", "acme", "solvers")
	require.NoError(t, err)
	require.Len(t, all, 1)
	dns, _, _ = unstructured.NestedString(all[0].(map[string]any), "dns01", "cloudflare", "apiTokenSecretRef", "name")
	s := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "cert-manager", Name: "homelab-dns"}}
	if err := api.Get(t.Context(), &s); !errors.Is(err, kube.ErrNotFound) {
		require.NoError(t, err)
	}
	return dns, string(s.Data["token"])
}

// TestZones: a cluster proves its names by records of its zone, and keeps records there; another token
// is stored again; a file without the zone goes back to port 80, and removes what kept the records.
func TestZones(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		t.Setenv("CLOUDFLARE_TOKEN", "the-first-token")
		text := withPlatform(t, "one-gpu", zonePlatform)
		w.up(t, parse(t, text))
		api := w.api(t)
		dns, token := solvers(t, api)
		assert.Equal(t, "homelab-dns", dns)
		assert.Equal(t, "the-first-token", token)
		records := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "external-dns", Name: "external-dns-credentials"}}
		require.NoError(t, api.Get(t.Context(), &records))
		assert.Equal(t, "the-first-token", string(records.Data["token"]))
		assert.Empty(t, w.plan(t, parse(t, text)))

		t.Setenv("CLOUDFLARE_TOKEN", "the-second-token")
		w.up(t, parse(t, text))
		_, token = solvers(t, api)
		assert.Equal(t, "the-second-token", token)
		reader := appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "external-dns", Name: "external-dns"}}
		require.NoError(t, api.Get(t.Context(), &reader))
		assert.Contains(t, reader.Spec.Template.Annotations, "kubectl.kubernetes.io/restartedAt", "its environment has the first token")
		assert.Empty(t, w.plan(t, parse(t, text)))

		without := strings.Replace(text, "dns: {zones: [lab.example], records: true, cloudflare: env:CLOUDFLARE_TOKEN}\n", "", 1)
		assert.Contains(t, fmt.Sprint(w.plan(t, parse(t, without))), "what leaves in the same run keeps its records")
		w.up(t, parse(t, without))
		dns, token = solvers(t, api)
		assert.Empty(t, dns)
		assert.Empty(t, token, "the token is still in the cluster")
		assert.ErrorIs(t, api.Get(t.Context(), &records), kube.ErrNotFound)
		assert.Empty(t, w.plan(t, parse(t, without)))
		assert.NotContains(t, w.output.String(), "-token")
	})
}

// TestRefusedOutside: a zone that takes no credentials and a provider that programs could not ask stop a run before
// anything is made, each with its reason.
func TestRefusedOutside(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		t.Setenv("CLOUDFLARE_TOKEN", "the-first-token")
		t.Setenv("CLIENT_SECRET", "of-all-programs")
		zone, provider := errors.New("the token sees no such zone"), errors.New("it calls itself otherwise")
		signer, err := ssh.LoadSigner(w.dir + "/id_ed25519")
		require.NoError(t, err)
		w.keys = func(b *cluster.Backend) {
			b.Signers = []ssh.Signer{signer}
			b.CheckDNS = func(_ context.Context, d *spec.DNS) error {
				assert.Equal(t, []string{"lab.example"}, d.Zones)
				return zone
			}
			b.CheckProvider = func(_ context.Context, p *spec.Platform) error {
				assert.Equal(t, "https://id.lab.example/realms/lab", p.Issuer().URL)
				return provider
			}
		}
		before := len(w.sim.VMs())
		_, err = w.cluster(t, parse(t, withPlatform(t, "one-gpu", zonePlatform+loginOfProvider))).Up().Run(t.Context(), w.listen(t))
		require.ErrorIs(t, err, zone)
		require.ErrorIs(t, err, provider)
		assert.Len(t, w.sim.VMs(), before)
	})
}
