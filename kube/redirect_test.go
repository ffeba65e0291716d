package kube_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

// Nobody gets our credentials by answering with a redirect.
func TestRedirectsDoNotCarryCredentials(t *testing.T) {
	var reached atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+r.URL.Path, status)
		}))
		k, err := kube.New(kube.Config{Kubeconfig: fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: very-secret}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, srv.URL)})
		require.NoError(t, err)
		_, err = k.Version(t.Context())
		require.ErrorContains(t, err, "leads to "+thief.URL+", which is not followed")
		srv.Close()
	}
	assert.Zero(t, reached.Load())
}
