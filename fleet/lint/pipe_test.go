//go:build unix

// Windows has no named pipes in folders.

package lint_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint"
)

// A repository in which a FIFO lies where a file belongs is read without waiting for
// somebody to write into it.
func TestLintWaitsForNoPipe(t *testing.T) {
	for _, name := range []string{".git/index", ".gitignore", ".fleetignore", "app/fleet.yaml", "app/values.yaml", "app/Chart.yaml", "app/templates/a.yaml", "kustomization.yaml"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "app"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "app/a.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600))
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer func() { _ = root.Close() }()
		ended := make(chan error, 1)
		go func() {
			_, err := lint.Run(t.Context(), root.FS(), lint.Options{})
			ended <- err
		}()
		select {
		case err := <-ended:
			assert.NoError(t, err, name)
		case <-time.After(10 * time.Second):
			w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // lets the reader go
			require.NoError(t, err)
			_ = w.Close()
			t.Errorf("%s: it is still being read after 10 s", name)
		}
	}
}
