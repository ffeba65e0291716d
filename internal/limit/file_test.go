//go:build unix

// Windows has no named pipes in folders.

package limit_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/limit"
)

// A path from somebody else's file may name anything: a pipe keeps nobody, and a device ends.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large, small := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "small")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat("a", 101)), 0o600))
	require.NoError(t, os.WriteFile(small, []byte(strings.Repeat("a", 100)), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("/dev/zero", link))
	for path, want := range map[string]string{pipe: "is not a file", "/dev/zero": "is not a file", link: "is not a file", dir: "is not a file",
		large: "at most 100 bytes are read", filepath.Join(dir, "none"): "no such file"} {
		_, err := limit.File(path, 100)
		assert.ErrorContains(t, err, want, path)
	}
	data, err := limit.File(small, 100)
	require.NoError(t, err)
	assert.Len(t, data, 100)
}
