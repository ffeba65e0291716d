package helm_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// An https repository leads to https only, by redirects as by its index; an archive
// without TLS is taken where the index has its digest.
func TestNothingLeadsOutOfTLS(t *testing.T) {
	archive := pack(t, "web-1.0.0")
	var asked atomic.Int32
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasSuffix(r.URL.Path, "index.yaml") {
			_, _ = fmt.Fprint(w, "entries:\n  web:\n  - {version: 1.0.0, urls: [web.tgz]}\n")
			return
		}
		_, _ = w.Write(archive)
	}))
	defer plain.Close()
	var entry string
	var status int
	mux := http.NewServeMux()
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	mux.HandleFunc("/down/index.yaml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL+"/index.yaml", status) })
	mux.HandleFunc("/aside/index.yaml", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secure.URL+"/named/index.yaml", status)
	})
	mux.HandleFunc("/named/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "entries:\n  web:\n  - {version: 1.0.0, %s}\n", entry)
	})
	mux.HandleFunc("/aside/web.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
	mux.HandleFunc("/named/down.tgz", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL+"/web.tgz", status) })
	try := func(path string) error {
		s := helm.Source{Cache: t.TempDir(), Wrap: func(http.RoundTripper) http.RoundTripper { return secure.Client().Transport }}
		return s.Check(t.Context(), chart.Release{Name: "site", Namespace: "web", Chart: "web", Version: "1.0.0", Repo: secure.URL + path}, caps)
	}
	for _, status = range []int{301, 302, 303, 307, 308} {
		entry = "urls: [web.tgz], digest: " + digestOf(archive)
		require.NoError(t, try("/aside"), status)
		err := try("/down")
		require.ErrorContains(t, err, "without TLS", status)
		entry = "urls: [down.tgz]"
		require.ErrorContains(t, try("/named"), "without TLS", status)
	}
	entry = "urls: ['" + plain.URL + "/web.tgz']"
	require.ErrorContains(t, try("/named"), "without TLS")
	assert.Zero(t, asked.Load(), "what is without TLS was asked")
	entry += ", digest: " + digestOf(archive)
	require.NoError(t, try("/named"))
	archive = append(archive, 0)
	require.ErrorContains(t, try("/named"), "was changed on the way")
}

// A chart with a known digest is that chart, downloaded or kept.
func TestKnownDigests(t *testing.T) {
	repo := newRepository(t)
	source, r := helm.Source{Cache: t.TempDir()}, repo.release()
	r.Digest = "sha256:" + repo.digest
	require.NoError(t, source.Check(t.Context(), r, caps))
	files, err := filepath.Glob(source.Cache + "/*/web-1.0.0.tgz")
	require.NoError(t, err)
	require.Len(t, files, 1)

	t.Run("the kept one was changed", func(t *testing.T) {
		other := pack(t, "web-1.0.0")
		other[4]++ // the time of the archive: it is still one
		require.NoError(t, os.WriteFile(files[0], other, 0o600))
		offline := source
		offline.Offline = true
		require.ErrorContains(t, offline.Check(t.Context(), r, caps), "delete the file")
		require.NoError(t, source.Check(t.Context(), r, caps), "it is fetched again")
		require.NoError(t, offline.Check(t.Context(), r, caps))
	})
	t.Run("the repository's was changed, with its index", func(t *testing.T) {
		repo.archive[4]++
		repo.digest = digestOf(repo.archive)
		source.Cache = t.TempDir()
		err := source.Check(t.Context(), r, caps)
		require.ErrorContains(t, err, "was expected: it was changed on the way or in its repository")
		left, err := filepath.Glob(source.Cache + "/*/*")
		require.NoError(t, err)
		require.Empty(t, left)
	})
}
