package platform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The list behind pins:age has each version as its file has it: who changes one writes down when and
// where it was looked up.
func TestEveryPinHasADateAndASource(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "magefiles", "pins.tsv"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 5, line)
		what, version, file, date, source := f[0], f[1], f[2], f[3], f[4]
		code, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err, what)
		assert.Contains(t, string(code), version, "%s: %s has another version", what, file)
		_, err = time.Parse(time.DateOnly, date)
		require.NoError(t, err, what)
		assert.NotEmpty(t, source, what)
	}
}
