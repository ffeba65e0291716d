package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// A server that answers with a redirect sends the token nowhere: not to another port of the
// host, not in clear text, not with any method or status.
func TestRedirectsDoNotCarryTheToken(t *testing.T) {
	var reached atomic.Int32
	thief := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		data(map[string]any{"version": "9.2.11"})(w, nil)
	})
	clear, encrypted := httptest.NewServer(thief), httptest.NewTLSServer(thief)
	t.Cleanup(clear.Close)
	t.Cleanup(encrypted.Close)
	for _, to := range []string{clear.URL, encrypted.URL} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			lead := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to+r.URL.Path, status) }

			h := serve(t, map[string]http.HandlerFunc{mappingPath: lead})
			err := deleteMapping(t, h.dial(t))
			require.ErrorContains(t, err, "it answers with a redirect to "+to)
			var e *api.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, status, e.Status)
			assert.False(t, e.Transient(), "another try leads there again")

			_, err = api.Dial(t.Context(), serve(t, map[string]http.HandlerFunc{"GET /version": lead}).Config())
			require.ErrorContains(t, err, "if that is the host, write it as the endpoint")
			assert.NotContains(t, err.Error(), tokenSecret)
		}
	}
	assert.Zero(t, reached.Load(), "somebody else was asked")
	h := serve(t, map[string]http.HandlerFunc{mappingPath: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusFound) }})
	err := deleteMapping(t, h.dial(t))
	require.ErrorContains(t, err, "is this its API?")
	assert.False(t, strings.Contains(err.Error(), "http://"))
}
