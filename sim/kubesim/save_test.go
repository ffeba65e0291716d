package kubesim_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// A saved cluster begins again where it was: with the objects of then, and with the authority
// that its users trust.
func TestSaveAndRestore(t *testing.T) {
	bubble(t, func(t *testing.T, a api) {
		code, was := a.do(http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"then"},"data":{"a":"1"}}`)
		require.Equal(t, http.StatusCreated, code)
		saved, err := a.c.Save(t.Context())
		require.NoError(t, err)
		assert.Contains(t, saved.Objects, "/registry/configmaps/default/then")
		assert.Contains(t, saved.Objects, "/registry/namespaces/kube-system")
		_, _ = a.do(http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"later"}}`)

		again, err := kubesim.New(t.Context(), guest.PlaneConfig{TLSSANs: []string{"10.0.0.10"}, Saved: saved}, 1)
		require.NoError(t, err)
		defer func() { _ = again.Close() }()
		assert.Contains(t, again.Names("configmaps"), "default/then")
		assert.NotContains(t, again.Names("configmaps"), "default/later")
		config, err := clientcmd.RESTConfigFromKubeConfig(a.c.Kubeconfig("https://10.0.0.10:6443"))
		require.NoError(t, err)
		trust, err := rest.TLSConfigFor(config)
		require.NoError(t, err)
		transport := &http.Transport{TLSClientConfig: trust, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return again.Dial(ctx) }}
		defer transport.CloseIdleConnections()
		_, now := api{t: t, c: again, http: &http.Client{Transport: transport}}.get("/api/v1/namespaces/default/configmaps/then")
		assert.Equal(t, withVersion(was, "metadata", "uid"), withVersion(now, "metadata", "uid"))
		one, err := a.c.Save(t.Context())
		require.NoError(t, err)
		two, err := again.Save(t.Context())
		require.NoError(t, err)
		assert.Equal(t, one.Authority, two.Authority)
	})
}
