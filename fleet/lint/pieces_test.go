package lint

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Which files and folders a .fleetignore leaves out.
func TestLintIgnored(t *testing.T) {
	for _, c := range []struct {
		dir, text, full string
		isDir, want     bool
	}{
		{".", "x.yaml", "x.yaml", false, true}, {".", "x.yaml", "a/b/x.yaml", false, true}, {".", "*.md", "a/x.md", false, true}, {".", "*.md", "a/x.yaml", false, false},
		{"a", "x.yaml", "a/x.yaml", false, true}, {"a", "x.yaml", "b/x.yaml", false, false}, {"a", "x.yaml", "a-two/x.yaml", false, true},
		{".", "docs/*", "docs", true, true}, {".", "docs/*", "a/docs", true, true}, {".", "docs/*", "docs", false, false}, {".", "docs/*", "docs/x", false, false},
		{".", "docs/*", "other", true, false}, {".", "docs", "docs", true, true}, {".", "/*", "x", false, false}, {".", "/*", "x", true, false}, {".", "a/b", "a/b", false, false},
		{".", "a/b/*", "b", true, false},
	} {
		got, err := isIgnored([]ignoreRule{{dir: "zzz", text: "*"}, {dir: c.dir, text: c.text}}, c.full, c.isDir)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%+v", c)
	}
	_, err := isIgnored([]ignoreRule{{dir: ".", text: "["}}, "x", false)
	require.Error(t, err)
	got, err := isIgnored([]ignoreRule{{dir: ".", text: "docs/*"}, {dir: ".", text: "x"}, {dir: ".", text: "["}}, "x", false)
	require.NoError(t, err, "what is left out by one is not held against the next")
	require.True(t, got)
	assert.Equal(t, []ignoreLine{{2, "a"}, {4, `b\ `}, {5, "c"}, {6, "  d"}}, readIgnore([]byte("# words\na  \n\nb\\ \nc\r\n  d\n   \n")))
}

// A folder is loose where manifests are in it or below it, and no fleet.yaml above them.
func TestLintLooseFolders(t *testing.T) {
	tree, err := readTree(files("a/x.yaml", "", "b/x.yml", "", "c/x.json", "", "d/fleet.yaml", "", "d/e/x.yaml", "", "f/g/h/x.yaml", "", "i/fleet.yml", "", "i/x.yaml", "", "j/k/fleet.yaml", "", "j/k/x.yaml", "",
		"l/m/fleet.yaml", "", "l/n/x.yaml", "", "o/README.md", ""))
	require.NoError(t, err)
	for dir, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false, "d/e": true, "f": true, "f/g": true, "i": false, "j": false, "j/k": false, "l": true, "o": false} {
		assert.Equal(t, want, tree.hasLooseManifests(dir), dir)
	}
}

// Up to six findings of a rule are shown; of seven and more, five. What is in examples is
// one line where it is more than one finding.
func TestLintTextCounts(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for _, dir := range []string{"apps", "examples"} {
			r := &Report{}
			for i := range n {
				r.Findings = append(r.Findings, Finding{Rule: "r", Severity: Warning, File: fmt.Sprintf("%s/%d/x.yaml", dir, i), Line: 1, Column: 1, Message: "m", Cure: "c"})
			}
			var b bytes.Buffer
			require.NoError(t, r.Text(&b))
			want := 2 * n
			switch {
			case dir == "examples" && n > 1:
				want = 1
			case n > 6:
				want = 2*5 + 1
			}
			require.Equal(t, want, strings.Count(b.String(), "\n"), "%d in %s:\n%s", n, dir, b.String())
		}
	}
	var b bytes.Buffer
	require.NoError(t, (&Report{Findings: []Finding{{Rule: "r", File: "a", Message: "m"}}}).Text(&b))
	require.Equal(t, "a: info: m [r]\n", b.String(), "a folder has no line, and not all has a cure")
}

// How large a bundle is as it is stored: as it is below the most, packed file by file from
// there on, and a file that is too long to be read at a quarter.
func TestLintStored(t *testing.T) {
	file := func(size int, read bool) *lintFile {
		f := &lintFile{size: size}
		if read {
			f.data = make([]byte, size)
		}
		return f
	}
	stored := func(files ...*lintFile) int { return (&linter{}).storedSize(&lintBundle{files: files}) }
	assert.Zero(t, stored())
	assert.Equal(t, maxStored-1, stored(file(maxStored-2, true), file(1, false)))
	zeros := stored(file(maxStored, true))
	assert.Less(t, zeros, maxStored/100, "zeros pack well")
	assert.Equal(t, maxStored, stored(file(4*maxStored, false)))
	assert.Equal(t, 2*maxStored, stored(file(4*maxStored, false), file(4*maxStored, false)))
	assert.Equal(t, maxStored+zeros, stored(file(4*maxStored, false), file(maxStored, true)))
	assert.Equal(t, maxStored+zeros, stored(file(maxStored, true), file(4*maxStored, false)))
}

// Which bundles Fleet refuses: dependencies on nothing, and charts that are not said in full,
// unless a target takes the rest from its bundle.
func TestReadBundlesRefuses(t *testing.T) {
	const own = "helm: {repo: 'https://c.example.com', chart: c, version: 1.0.0}\n"
	target := func(helm string) string { return "targetCustomizations: [{clusterName: a, helm: {" + helm + "}}]\n" }
	for text, refused := range map[string]bool{
		"dependsOn: [{}]\n": true, "dependsOn: [{name: a}]\n": false, "dependsOn: [{selector: {matchLabels: {a: b}}}]\n": false, "dependsOn: [{name: a}, {}]\n": true,
		"helm: {repo: 'https://c.example.com'}\n": true, own: false, "helm: {releaseName: a}\n": false, "helm: {repo: 'oci://c.example.com/c'}\n": false,
		"helm: {chart: 'oci://c.example.com/c', version: 1.0.0}\n": false, own + target("chart: 'oci://c.example.com/c'"): false,
		target("repo: 'https://c.example.com'"): true, own + target("repo: 'https://d.example.com'"): false, own + target("chart: d"): false, target("chart: nowhere"): true,
		target("releaseName: a"): false, "helm: {releaseName: a}\n" + target("repo: 'https://c.example.com'"): true, "helm: {releaseName: a}\n" + target("chart: nowhere"): true,
		"helm: {chart: c}\n" + target("repo: 'https://d.example.com'"): false,
	} {
		found, err := ReadBundles(files("a/fleet.yaml", text, "a/x.yaml", settings, "a/c/x.yaml", strings.Replace(settings, "settings", "c", 1)), BundleScan{GitRepo: "lab"})
		require.NoError(t, err)
		assert.Equal(t, refused, found[0].Err != nil, "%s%v", text, found[0].Err)
	}
}

// The summary says only what there is.
func TestLintSummary(t *testing.T) {
	r := &Report{Bundles: 1, Files: 2}
	assert.Equal(t, "1 bundle in 2 files: 0 errors, 0 warnings", r.Summary())
	r.Findings, r.Suppressed = []Finding{{Severity: Failure}, {Severity: Warning}, {Severity: Warning}, {Severity: Info}}, 1
	assert.Equal(t, "1 bundle in 2 files: 1 error, 2 warnings, 1 for information, 1 suppressed by comments", r.Summary())
	assert.Equal(t, []int{4, 3, 1}, []int{r.Count(Info), r.Count(Warning), r.Count(Failure)})
}

// A tag for text leaves what is around it at its place.
func TestLintTagsKeepPlaces(t *testing.T) {
	docs, bad := manifest.Docs([]byte("a: !!str 5\nb:\n  c: 2\n"))
	require.Empty(t, bad)
	require.Equal(t, yamlnode.Pos{Line: 2, Col: 1}, docs[0].Root.Key("b"))
	require.Equal(t, yamlnode.Pos{Line: 3, Col: 6}, docs[0].Root.Get("b", "c").At)
	require.Equal(t, "5", docs[0].Root.Get("a").Str())
}
