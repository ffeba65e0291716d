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
	require.NoError(t, keep.WriteFile(filepath.Join(dir, ".homelab", "home", "token"), []byte("a"), 0o600))
	text, err := os.ReadFile(filepath.Join(dir, ".homelab", ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(text))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".homelab", ".gitignore"), []byte("mine\n"), 0o600))
	require.NoError(t, keep.WriteFile(filepath.Join(dir, ".homelab", "home", "token"), []byte("b"), 0o600))
	text, err = os.ReadFile(filepath.Join(dir, ".homelab", ".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "mine\n", string(text))
	require.NoError(t, keep.WriteFile(filepath.Join(dir, "kubeconfig"), []byte("c"), 0o600))
	assert.NoFileExists(t, filepath.Join(dir, ".gitignore"), "only our own folder")
	assert.NoFileExists(t, filepath.Join(dir, ".homelab", "home", ".gitignore"))
}

// A .homelab, or a folder in it, that leads elsewhere gets nothing, and no folder is made there.
func TestAFolderOfSecretsThatIsALink(t *testing.T) {
	for _, link := range []string{".homelab", filepath.Join(".homelab", "home")} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o700))
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, link)))
		path := filepath.Join(dir, ".homelab", "home", "id_ed25519")
		for _, err := range []error{
			keep.CheckNoSymlink(filepath.Dir(path)), keep.Check(path, 0o600), keep.WriteFile(path, []byte("key"), 0o600), keep.WriteFile(path+".pub", []byte("key"), 0o644),
		} {
			require.ErrorContains(t, err, filepath.Join(dir, link)+" is a symbolic link to "+elsewhere+", and keys and secrets are kept there: put a folder in its place")
		}
		left, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
	require.NoError(t, keep.CheckNoSymlink(filepath.Join(t.TempDir(), "anything")))
}
