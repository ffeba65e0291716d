package addon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/kube/addon"
)

// A certificate of another owner is copied with both halves, or not at all.
func TestCopyCertificate(t *testing.T) {
	withSite(t, func(t *testing.T, s *site) {
		for _, name := range []string{"", "a", "/b", "a/"} {
			_, err := addon.CopyCertificate(t.Context(), s.Client, name, "x", "y")
			require.ErrorContains(t, err, "write namespace/name", name)
		}
		_, err := addon.CopyCertificate(t.Context(), s.Client, "default/wildcard", "x", "y")
		require.ErrorContains(t, err, "tls.secret names default/wildcard, which is not in the cluster")
		its := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wildcard"}, Data: map[string][]byte{corev1.TLSCertKey: []byte("cert")}}
		_, err = s.Apply(t.Context(), its)
		require.NoError(t, err)
		_, err = addon.CopyCertificate(t.Context(), s.Client, "default/wildcard", "x", "y")
		require.ErrorContains(t, err, "default/wildcard has no tls.key")
		its.Data[corev1.TLSPrivateKeyKey] = []byte("key")
		_, err = s.Apply(t.Context(), its)
		require.NoError(t, err)
		copied, err := addon.CopyCertificate(t.Context(), s.Client, "default/wildcard", "x", "y")
		require.NoError(t, err)
		assert.Equal(t, "x/y kubernetes.io/tls", copied.Namespace+"/"+copied.Name+" "+copied.Type)
		assert.Equal(t, "key", copied.Data[corev1.TLSPrivateKeyKey].Reveal())
	})
}
