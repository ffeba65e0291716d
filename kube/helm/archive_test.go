package helm

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/cps-gpu/homelab/kube/chart"
)

// oneChart is a repository with one chart.
type oneChart struct {
	data  []byte
	asked int
}

func (a *oneChart) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked++
	body := a.data
	if strings.HasSuffix(r.URL.Path, "/index.yaml") {
		body = fmt.Appendf(nil, "entries: {web: [{version: 1.0.0, urls: [web.tgz], digest: %q}]}", digestOf(a.data))
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// The archive in a folder is that of the repository, with the digest that the release names, and is fetched once.
func TestSave(t *testing.T) {
	file, err := chartutil.Save(&helmchart.Chart{Metadata: &helmchart.Metadata{APIVersion: "v2", Name: "web", Version: "1.0.0"}}, t.TempDir())
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	web, dir := &oneChart{data: data}, filepath.Join(t.TempDir(), "mirror", "charts")
	r := chart.Release{Name: "web", Namespace: "web", Chart: "web", Version: "1.0.0", Repo: "https://charts.example", Digest: digestOf(data)}
	for _, cache := range []string{t.TempDir(), "/proc/self/none"} { // the second cannot be written
		s := Source{Cache: cache, Wrap: func(http.RoundTripper) http.RoundTripper { return web }}
		web.asked = 0
		for _, want := range []int{len(data), 0} {
			n, err := s.Save(t.Context(), r, dir)
			require.NoError(t, err)
			assert.Equal(t, want, n)
		}
		assert.Equal(t, 2, web.asked, "the index, and the archive")
		saved := filepath.Join(dir, "web-1.0.0.tgz")
		have, err := os.ReadFile(saved)
		require.NoError(t, err)
		assert.Equal(t, data, have)
		require.NoError(t, os.WriteFile(saved, []byte("another"), 0o600))
	}
	s := Source{Folder: dir, Cache: t.TempDir(), Offline: true}
	_, err = s.Archive(t.Context(), r)
	require.ErrorContains(t, err, "chart web 1.0.0: it is not among earlier downloads, and we are offline")
	r.Digest = ""
	have, err := s.Archive(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, "another", string(have), "nothing says that it is wrong")
}
