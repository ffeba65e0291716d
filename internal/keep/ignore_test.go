package keep_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/keep"
)

// What is kept beside a cluster's file never comes into Git, also where nobody wrote a
// .gitignore; one that somebody wrote stays.
func TestKeptOutOfGit(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, keep.Whole(filepath.Join(dir, ".homelab", "home", "token"), []byte("a"), 0o600))
	text, err := os.ReadFile(filepath.Join(dir, ".homelab", ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(text))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".homelab", ".gitignore"), []byte("mine\n"), 0o600))
	require.NoError(t, keep.Whole(filepath.Join(dir, ".homelab", "home", "token"), []byte("b"), 0o600))
	text, err = os.ReadFile(filepath.Join(dir, ".homelab", ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "mine\n", string(text))
	require.NoError(t, keep.Whole(filepath.Join(dir, "kubeconfig"), []byte("c"), 0o600))
	assert.NoFileExists(t, filepath.Join(dir, ".gitignore"), "only our own folder")
	assert.NoFileExists(t, filepath.Join(dir, ".homelab", "home", ".gitignore"))
}
