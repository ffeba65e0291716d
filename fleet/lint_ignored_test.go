package fleet_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet"
)

// What Git keeps out of a repository Fleet never sees: a key beside the bundles that is
// ignored is no finding, and one that is not ignored is.
func TestLintReadsWhatGitHas(t *testing.T) {
	key := &fstest.MapFile{Data: []byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAA\n-----END PRIVATE KEY-----\n")}
	repo := fstest.MapFS{
		".gitignore":      {Data: []byte("# ours\n/.lab/\n*.pem\n!kept.pem\n")},
		".lab/key":        key,
		"a/.lab/key":      key,
		"a/own.pem":       key,
		"a/kept.pem":      key,
		"b/.gitignore":    {Data: []byte("*\n")},
		"b/deeper/key":    key,
		"c/key":           key,
		"c/.git/key":      key,
		"d/.gitignore":    {Data: []byte(strings.Repeat("x\n", 5000) + "key\n")}, // more patterns than are read
		"e/.gitignore/at": key,
	}
	report, err := fleet.Lint(t.Context(), repo, fleet.LintOptions{})
	require.NoError(t, err)
	var files []string
	for _, f := range report.Findings {
		if f.Rule == "secret-token" {
			files = append(files, f.File)
		}
	}
	assert.Equal(t, []string{"a/.lab/key", "a/kept.pem", "c/key", "e/.gitignore/at"}, files)
}
