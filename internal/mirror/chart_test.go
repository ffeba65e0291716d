package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/cps-gpu/homelab/internal/mirror/registrytest"
	homelabchart "github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/helm"
)

// archiveOf is the archive of a chart.
func archiveOf(t *testing.T, description string) []byte {
	t.Helper()
	file, err := chartutil.Save(&chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "web", Version: "1.0.0+x", Description: description}}, t.TempDir())
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

// A chart in the registry is the same archive for who pulls it, and is copied once.
func TestChart(t *testing.T) {
	to := registrytest.New(t)
	c := Copier{To: Place{Registry: to.Host(), Project: "all"}, PlainHTTP: true, Destination: &auth.Client{}}
	archive := archiveOf(t, "ours")
	for _, want := range []int{len(archive), 0} {
		done, err := c.Chart(t.Context(), "web", archive)
		require.NoError(t, err)
		assert.Equal(t, Outcome{"charts/web", int64(want)}, done)
	}
	require.NotEmpty(t, to.Tags["all/charts/web:1.0.0_x"])
	pulled, err := helm.Source{Cache: filepath.Join(t.TempDir(), "cache")}.Archive(t.Context(), homelabchart.Release{
		Name: "web", Namespace: "web", Chart: "web", Version: "1.0.0+x", Repo: "oci://" + to.Host() + "/all/charts"})
	require.NoError(t, err)
	assert.Equal(t, archive, pulled)

	other := archiveOf(t, "another")
	_, err = c.Chart(t.Context(), "web", other)
	require.ErrorContains(t, err, "charts/web: "+to.Host()+"/all: ")
	require.ErrorContains(t, err, "has another chart under this version 1.0.0+x: -replace overwrites it")
	c.Replace = true
	done, err := c.Chart(t.Context(), "web", other)
	require.NoError(t, err)
	assert.NotZero(t, done.Bytes)
	_, err = c.Chart(t.Context(), "web", []byte("no archive"))
	require.Error(t, err)
}
