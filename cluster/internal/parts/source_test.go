package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile"
	"github.com/cps-gpu/homelab/kube/helm"
)

// Where charts come from is what the file says, unless a flag says more.
func TestSourceOfCharts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"flag", "own"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	source := func(more string, flags helm.Source) helm.Source {
		spec, err := clusterfile.Parse(filepath.Join(dir, "cluster.yaml"), []byte(external+more))
		require.NoError(t, err)
		return chartSource(New(Config{Spec: spec, Charts: flags}))
	}
	plain := source("", helm.Source{})
	assert.Empty(t, plain.Folder)
	assert.False(t, plain.Offline)
	own := source("charts: {folder: own, offline: true}\n", helm.Source{})
	assert.Equal(t, filepath.Join(dir, "own"), own.Folder)
	assert.True(t, own.Offline)
	assert.Equal(t, "flag", source("charts: {folder: own}\n", helm.Source{Folder: "flag"}).Folder)
}
