package proxmox_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
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

func (h *host) dial(t *testing.T) *proxmox.Client {
	c, err := proxmox.Dial(t.Context(), proxmox.Config(h.Config()))
	require.NoError(t, err)
	return c
}

func data(v any) http.HandlerFunc { return fakehost.Data(v) }

func raw(status int, reason, body string) http.HandlerFunc { return fakehost.Raw(status, reason, body) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
