//go:build unix

package keep_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/keep"
)

// What could not be written, as on a full disk, leaves no empty .gitignore, which would
// look like one that somebody wrote and would keep nothing out.
func TestKeptOutOfGitOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	none := was
	none.Cur = 0
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none))
	err := keep.AddGitignore(dir)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorContains(t, err, "keep "+dir+" out of Git: ")
	assert.NoFileExists(t, filepath.Join(dir, ".gitignore"))
	require.NoError(t, keep.AddGitignore(dir))
	text, err := os.ReadFile(filepath.Join(dir, ".gitignore")) //nolint:gosec // a test's own
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(text))
}
