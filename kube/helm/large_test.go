package helm_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// A registry's manifest is read up to a size, whatever the registry says that it has. So is
// an archive, of which the manifest has to say the truth.
func TestRegistriesHaveABound(t *testing.T) {
	piece := bytes.Repeat([]byte(" "), 1<<20)
	for want, size := range map[string]int{
		"its manifest: it has 300 MiB, and at most 4 MiB are read": 300 << 20,
		"its manifest: it has 5 MiB, and at most 4 MiB are read":   4<<20 + 1,
		"its manifest: it has more than 4 MiB":                     0, // chunked: it tells when asked by HEAD
	} {
		var sent atomic.Int32
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+digestOf(nil))
			switch {
			case size > 0:
				w.Header().Set("Content-Length", strconv.Itoa(size))
			case r.Method == http.MethodHead:
				w.Header().Set("Content-Length", "100")
			default:
				w.(http.Flusher).Flush()
			}
			for i := 0; r.Method == http.MethodGet && i < 300; i++ {
				if _, err := w.Write(piece); err != nil {
					return
				}
				sent.Add(1)
			}
		}))
		r := chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0", Repo: "oci://" + strings.TrimPrefix(srv.URL, "http://")}
		err := helm.Source{Cache: t.TempDir()}.Check(t.Context(), r, caps)
		srv.CloseClientConnections()
		srv.Close()
		if size == 0 {
			require.Error(t, err) // it is not what it said either
		} else {
			require.ErrorContains(t, err, fmt.Sprintf("%s/web: %s", r.Repo, want))
		}
		assert.Less(t, sent.Load(), int32(50), "MiB that were taken")
	}
}
