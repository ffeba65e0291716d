package lint_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	gitindex "github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint"
)

// What Git keeps out of a repository Fleet never sees: a key beside the bundles that is
// ignored is not a finding, and one that is not ignored is.
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
		"d/key":           key,
		"d/.gitignore":    {Data: []byte(strings.Repeat("x\n", 5000) + "key\n")}, // more patterns than are read
		"e/.gitignore/at": key,
	}
	var index bytes.Buffer
	require.NoError(t, gitindex.NewEncoder(&index).Encode(&gitindex.Index{Version: 2, Entries: []*gitindex.Entry{{Name: "a/tracked.pem"}, {Name: "b/deeper/tracked/key"}}}))
	repo[".git/index"] = &fstest.MapFile{Data: index.Bytes()}
	repo["a/tracked.pem"], repo["b/deeper/tracked/key"], repo["b/deeper/tracked/other"] = key, key, key
	report, err := lint.Run(t.Context(), repo, lint.Options{})
	require.NoError(t, err)
	var files []string
	for _, f := range report.Findings {
		if f.Rule == "secret-token" {
			files = append(files, f.File)
		}
	}
	assert.Equal(t, []string{"a/.lab/key", "a/kept.pem", "a/tracked.pem", "b/deeper/tracked/key", "c/key", "d/key", "e/.gitignore/at"}, files)
}
