package session

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/secret"
)

// From a sub-folder the cluster is that of the folder above, and so are its files and its lab.
func TestTheClusterOfAFolderAbove(t *testing.T) {
	top := t.TempDir()
	below := filepath.Join(top, "mine", "charts", "deep")
	require.NoError(t, os.MkdirAll(below, 0o700))
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(top, name), text, 0o600))
	}
	write("cluster.yaml", []byte("of somebody else, outside of the module"))
	write("mine/go.mod", []byte("module mine\n"))
	t.Chdir(below)
	assert.Empty(t, home())
	assert.Equal(t, ".lab", LabDir())

	require.NoError(t, os.Mkdir(filepath.Join(top, "mine", ".lab"), 0o700))
	assert.Equal(t, filepath.Join("..", "..", ".lab"), LabDir(), "a lab that was started above")
	example, err := Load(Options{Console: &console.Console{Talk: io.Discard, Redact: &secret.Redactor{}}})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join("..", "..", ".homelab", "eight-a100"), example.dir())
	require.NoError(t, os.Mkdir(".lab", 0o700))
	assert.Equal(t, ".lab", LabDir(), "the nearest lab")

	write("mine/cluster.yaml", examples.EightA100)
	assert.Equal(t, filepath.Join("..", ".."), home())
	assert.Equal(t, filepath.Join("..", "..", ".lab"), LabDir())
	var talk bytes.Buffer
	s, err := Load(Options{Console: &console.Console{Talk: &talk, Redact: &secret.Redactor{}}})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join("..", "..", ".homelab", s.Spec.Name), s.dir())
	assert.Contains(t, talk.String(), "No cluster.yaml in this folder: using "+filepath.Join("..", "..", "cluster.yaml")+".")

	write("mine/charts/cluster.yaml", examples.EightA100)
	assert.Equal(t, "..", home(), "the nearest")
	write("mine/charts/deep/cluster.yaml", examples.EightA100)
	assert.Empty(t, home())
	require.NoError(t, os.RemoveAll(filepath.Join(top, "mine", "go.mod")))
	t.Chdir(filepath.Join(top, "mine"))
	assert.Empty(t, home(), "there is no module")
}
