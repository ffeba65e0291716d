package fleet_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
)

// TestEveryFileFails: whatever file cannot be written, the error says which; the list,
// which says what is ours, is not written, and the next time all is written.
func TestEveryFileFails(t *testing.T) {
	want := tree(t)
	for _, name := range want.Names() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Join(at, "in-the-way"), 0o755))
			_, err := fleet.Write(dir, want, false)
			var where *fs.PathError
			require.ErrorAs(t, err, &where)
			assert.Contains(t, where.Path, filepath.Base(name))
			info, err := os.Stat(filepath.Join(dir, fleet.ListFile))
			assert.True(t, errors.Is(err, fs.ErrNotExist) || info.IsDir(), "what is ours is said last")

			require.NoError(t, os.RemoveAll(at))
			_, err = fleet.Write(dir, want, false)
			require.NoError(t, err)
			changes, err := fleet.Write(dir, want, false)
			require.NoError(t, err)
			assert.Empty(t, changes)

			// The same, while it is to go.
			less := tree(t)
			delete(less, name)
			if name == fleet.ListFile {
				return
			}
			relist(less)
			require.NoError(t, os.Remove(at))
			require.NoError(t, os.MkdirAll(filepath.Join(at, "in-the-way"), 0o755))
			_, err = fleet.Write(dir, less, false)
			if err == nil { // it was gone already
				assert.DirExists(t, filepath.Join(at, "in-the-way"), "what is not ours stays")
			}
		})
	}
}
