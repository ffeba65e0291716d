package keep

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some file systems do not sync folders.
func TestSyncFolder(t *testing.T) {
	require.NoError(t, syncFolder("/proc"))
	require.NoError(t, syncFolder(t.TempDir()))
	require.ErrorIs(t, syncFolder("/nowhere"), fs.ErrNotExist)
}
