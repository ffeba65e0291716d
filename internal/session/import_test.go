package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/pages"
)

// TestImport: the command writes a file that loads, tells what it left out, and overwrites nothing.
func TestImport(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	from, err := filepath.Abs("../importer/testdata/gpu-cluster")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	var said bytes.Buffer
	c := &console.Console{Talk: &said}
	require.NoError(t, Import(t.Context(), c, ImportFlags{From: from}))
	spec, err := cluster.Load("cluster.yaml")
	require.NoError(t, err)
	assert.Len(t, spec.Nodes, 7)
	assert.Equal(t, 8, spec.GPUCount())
	pages.Compare(t, "docs/import.md", "left out", said.String(), *update)
	pages.Compare(t, "docs/import.md", "secrets", said.String(), *update)
	before, err := os.ReadFile("cluster.yaml")
	require.NoError(t, err)
	assert.NotContains(t, said.String()+string(before), "deadbeef")

	for _, bad := range []struct {
		flags ImportFlags
		code  int
		want  string
	}{
		{ImportFlags{From: from}, refused, "nothing is overwritten"},
		{ImportFlags{}, invalid, "-from=PATH"},
		{ImportFlags{From: "gone", Out: "other.yaml"}, invalid, "gone"},
		{ImportFlags{From: filepath.Join(from, "terraform/variables.tf"), Out: "part.yaml"}, invalid, "part.yaml was written, and still lacks"},
	} {
		err := Import(t.Context(), c, bad.flags)
		require.ErrorContains(t, err, bad.want)
		exit, ok := err.(*Error) //nolint:errorlint // the command's own
		require.True(t, ok)
		assert.Equal(t, bad.code, exit.Code)
	}
	after, err := os.ReadFile("cluster.yaml")
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
}
