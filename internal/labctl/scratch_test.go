package labctl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/labctl"
)

// Programs stand for the lab's own.
func TestReadScratch(t *testing.T) {
	dir := t.TempDir()
	read := func(script string) (labctl.ScratchContents, error) {
		file := filepath.Join(t.TempDir(), "labd")
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700)) //nolint:gosec // a program
		return labctl.ReadScratch(t.Context(), labctl.Options{Dir: dir, Binary: file}, labctl.Scratch{Snapshot: []byte("s")})
	}
	has, err := read(`grep -q '"snapshot":"cw=="' && echo '{"kubernetes": "v1", "objects": {"nodes": 2}}'`)
	require.NoError(t, err)
	assert.Equal(t, labctl.ScratchContents{Kubernetes: "v1", Objects: map[string]int{"nodes": 2}}, has)

	_, err = read(`cat >/dev/null; echo "labd: the snapshot's checksum does not match" >&2; exit 1`)
	require.ErrorContains(t, err, "Kubernetes does not start from the snapshot: labd: the snapshot's checksum does not match")
	_, err = read(`cat >/dev/null; echo nonsense`)
	require.ErrorContains(t, err, "the answer of the scratch control plane")
}
