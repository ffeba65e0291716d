package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
	"github.com/cps-gpu/homelab/proxmox/internal/fakehost"
)

// Shorter names for what answers as a test says.
const (
	tokenID     = fakehost.TokenID
	tokenSecret = fakehost.TokenSecret
)

type host struct{ *fakehost.Host }

func serve(t *testing.T, answers map[string]http.HandlerFunc) *host {
	return &host{fakehost.Serve(t, answers)}
}

func (h *host) dial(t *testing.T) *api.Client {
	c, err := api.Dial(t.Context(), h.Config())
	require.NoError(t, err)
	return c
}

func data(v any) http.HandlerFunc { return fakehost.Data(v) }

func raw(status int, reason, body string) http.HandlerFunc { return fakehost.Raw(status, reason, body) }

func drop(w http.ResponseWriter, r *http.Request) { fakehost.Drop(w, r) }

// deleteMapping is the shortest request that changes something and has no task.
func deleteMapping(t *testing.T, c *api.Client) error {
	return c.Call(t.Context(), http.MethodDelete, "/cluster/mapping/pci/gpu", nil, nil)
}
