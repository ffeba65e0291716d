package proxmox_test

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// An answer without an end is not read into memory: a host that is not one, or broken,
// could take it all.
func TestAnswersHaveABound(t *testing.T) {
	piece := bytes.Repeat([]byte("a"), 1<<20)
	for want, size := range map[string]int{"it has more than 32 MiB": 0, "it has 300 MiB, and at most 32 MiB are read": 300 << 20} {
		sent := 0
		h := serve(t, map[string]http.HandlerFunc{"GET /cluster/resources": func(w http.ResponseWriter, _ *http.Request) {
			if size > 0 {
				w.Header().Set("Content-Length", strconv.Itoa(size))
			}
			_, err := w.Write([]byte(`{"data":[{"type":"qemu","name":"`))
			for ; sent < 300 && err == nil; sent++ {
				_, err = w.Write(piece)
			}
		}})
		_, err := h.dial(t).VMs.List(t.Context(), owner)
		require.ErrorContains(t, err, "GET /cluster/resources: "+want)
		require.ErrorContains(t, err, "is this Proxmox VE's API?")
		var e *api.Error
		require.ErrorAs(t, err, &e)
		assert.False(t, e.Transient(), "the next is as large")
		h.Close()
		assert.Less(t, sent, 100, "MiB that were taken")
	}
}
