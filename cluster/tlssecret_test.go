package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// A certificate that is there already reaches every part that shows a page, and who
// signed it is trusted by the hub.
func TestACertificateThatIsThere(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		ca := filepath.Join(w.dir, "ca.pem")
		require.NoError(t, os.WriteFile(ca, []byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), 0o600))
		text := withPlatform(t, "one-gpu", strings.Replace(smallPlatform, "tls: self-signed", "tls: {source: secret, secret: certs/wild, ca: "+ca+"}", 1)+
			"\nmonitoring: {hostname: grafana.lab.example}\n")
		spec := parse(t, text)
		_, err := w.cluster(t, spec).Up().Run(t.Context(), w.listen(t))
		require.ErrorContains(t, err, "tls.secret names certs/wild, which is not in the cluster")
		api := w.api(t)
		for _, object := range []runtime.Object{
			&corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "certs"},
			},
			&corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "certs", Name: "wild"},
				Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: []byte("cert"), corev1.TLSPrivateKeyKey: []byte("key")},
			},
		} {
			_, err = api.Apply(t.Context(), object)
			require.NoError(t, err)
		}
		w.up(t, spec)
		for _, at := range [][2]string{{"jupyterhub", "hub-tls"}, {"monitoring", "grafana-tls"}} {
			s := corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: at[0], Name: at[1]}}
			require.NoError(t, api.Get(t.Context(), &s), at)
			assert.Equal(t, "cert", string(s.Data[corev1.TLSCertKey]))
		}
		assert.Empty(t, w.plan(t, spec))
	})
}
