package api_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// The certificate is shown before anything is sent.
func TestCertificate(t *testing.T) {
	h := serve(t, nil)
	for _, endpoint := range []string{h.URL, h.Listener.Addr().String()} {
		got, trusted, err := api.Certificate(t.Context(), endpoint)
		require.NoError(t, err)
		assert.Equal(t, api.Fingerprint(h.TLS.Certificates[0].Leaf), got)
		assert.False(t, trusted, "no authority that a system trusts has signed it")
	}
	assert.Zero(t, h.Count("GET /version"))
	_, _, err := api.Certificate(t.Context(), "http://pve1")
	require.ErrorContains(t, err, "https only")
	h.Close()
	_, _, err = api.Certificate(t.Context(), h.URL)
	assert.ErrorContains(t, err, "cannot be reached")
}
