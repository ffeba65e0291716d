package lint

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// A repository is read up to so many files and so many bytes, and no further.
func TestLintRepositoriesHaveABound(t *testing.T) {
	many := fstest.MapFS{}
	for i := range manifest.MaxFiles {
		many[fmt.Sprintf("d%d/f%d", i%20, i)] = &fstest.MapFile{}
	}
	tree, err := readTree(many)
	require.NoError(t, err)
	require.Len(t, tree.files, manifest.MaxFiles)
	many["one-more"] = &fstest.MapFile{}
	_, err = readTree(many)
	require.ErrorContains(t, err, "more than 50000 files or 256 MiB: name the folder that Fleet reads")

	large := fstest.MapFS{}
	data := make([]byte, manifest.MaxFile)
	for i := range manifest.MaxTotal / manifest.MaxFile {
		large[fmt.Sprintf("f%02d", i)] = &fstest.MapFile{Data: data}
	}
	_, err = readTree(large)
	require.NoError(t, err)
	large["longer"] = &fstest.MapFile{Data: append(data, 'x')} // which is carried, and not read
	_, err = readTree(large)
	require.NoError(t, err)
	large["z"] = &fstest.MapFile{Data: []byte("x")}
	_, err = readTree(large)
	require.ErrorContains(t, err, "z: the repository has more than")
}

// Tokens are looked for in files of up to half a MiB.
func TestLintTokensInLongFiles(t *testing.T) {
	const token = "AKIAABCDEFGHIJKLMNOP\n"
	for more, found := range map[int]int{-len(token): 1, 0: 1, 1: 0} {
		got := lintOne(t, Options{}, "a/notes.txt", token+strings.Repeat("x", manifest.MaxPlace-len(token)+more))
		require.Equal(t, found, strings.Count(strings.Join(got, "\n"), "[secret-token]"), "%+d bytes", more)
	}
}

// Every link of a bundle is looked at, whatever files are before it.
func TestLintEveryLink(t *testing.T) {
	tree := files("a/fleet.yaml", "defaultNamespace: x\n", "a/1.yaml", settings, "a/5.yaml", strings.Replace(settings, "settings", "other", 1), "b.yaml", settings)
	for name, to := range map[string]string{"a/2.yaml": "1.yaml", "a/3.yaml": "../b.yaml", "a/9.yaml": "/etc/hostname"} {
		tree[name] = &fstest.MapFile{Mode: 0o777 | 1<<27, Data: []byte(to)} // fs.ModeSymlink
	}
	r, err := Run(t.Context(), tree, Options{})
	require.NoError(t, err)
	var got []string
	for _, f := range r.Findings {
		if f.Rule == "symlink-outside" {
			got = append(got, f.File+": "+f.Message)
		}
	}
	require.Equal(t, []string{
		"a/3.yaml: the link leads to ../b.yaml, outside the bundle's folder",
		"a/9.yaml: the link leads to /etc/hostname, outside the bundle's folder",
	}, got)
}

// A document that only Fleet's parser can judge, and refuses, is named by its first line.
func TestLintRefusedDocuments(t *testing.T) {
	_, bad := manifest.Docs([]byte("a: 1\n---\nb: 1\nc: !!float x\n"))
	require.Len(t, bad, 1)
	require.Equal(t, yamlnode.Pos{Line: 3, Col: 1}, bad[0].At, bad[0].What)
	require.NotEmpty(t, bad[0].What)
	_, bad = manifest.Docs([]byte("a: 1\n---\nb: 1\nc: *nobody\n"))
	require.Len(t, bad, 1)
	require.GreaterOrEqual(t, bad[0].At.Line, 3)
}

// Patterns that can name nothing: an empty part, or ".", after a wildcard.
func TestLintGlobsOfNothing(t *testing.T) {
	for pattern, nothing := range map[string]bool{
		"": true, "*/": true, "a/*/": true, "*/./b": true, "a*//b": true, "[ab]/.": true, "?/": true, `\a/`: true,
		"*": false, "a": false, "a/": false, "./a": false, "a//*": false, "a/./*": false, "*/b": false, "*/..": false, "a/*/b/*": false,
	} {
		assert.Equal(t, nothing, globNothing(pattern), "%q", pattern)
	}
}

// A folder without a kustomization is passed over, and the next one built.
func TestLintTheNextKustomization(t *testing.T) {
	tree := []string{"a/fleet.yaml", "targetCustomizations:\n- clusterName: one\n  kustomize: {dir: none}\n- clusterName: two\n  kustomize: {dir: two}\n", "a/x.yaml", settings,
		"a/two/kustomization.yaml", "resources: [x.yaml]\nnameSuffix: 7_\nnonsense: 1\n", "a/two/x.yaml", settings}
	require.Contains(t, strings.Join(lintOne(t, Options{}, tree...), "\n"), "a/two/kustomization.yaml:1:1: error: kustomize refuses it: ")
}

// The note that kustomize leaves of an object's file goes again, with what was only there
// for it; notes of the repository's own stay.
func TestLintKustomizeLeavesNoNotes(t *testing.T) {
	tree, err := readTree(files("a/kustomization.yaml", "resources: [x.yaml]\n", "a/x.yaml", settings))
	require.NoError(t, err)
	for _, own := range []string{"", "mine"} {
		notes := map[string]any{lintOrigin: "path: x.yaml\n"}
		if own != "" {
			notes[own] = "kept"
		}
		meta := map[string]any{"name": "settings", "annotations": notes}
		budget := manifest.MaxNodes
		(&linter{tree: tree}).kustomizedObjects(&lintBundle{BundleSource: &BundleSource{Dir: "a"}}, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, ".", &budget)
		left, there := meta["annotations"].(map[string]any)
		require.Equal(t, own != "", there)
		require.NotContains(t, left, lintOrigin)
		require.Len(t, left, len(own)/4)
	}
}
