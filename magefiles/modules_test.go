package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryModuleIsLinted: ./... ends where another module begins, so lint has a list of them, twice. One without
// packages only names a program that a test compiles.
func TestEveryModuleIsLinted(t *testing.T) {
	text, err := os.ReadFile("dev.go")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != ".." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return filepath.SkipDir
		case e.Name() == "go.mod" && filepath.Dir(path) != "..":
			dir, err := filepath.Rel("..", filepath.Dir(path))
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.go"))
			require.NoError(t, err)
			inside, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*", "*.go"))
			require.NoError(t, err)
			if len(files)+len(inside) == 0 {
				return nil
			}
			assert.Equal(t, 2, strings.Count(string(text), `"`+filepath.ToSlash(dir)+`": `), dir)
		}
		return nil
	}))
}
