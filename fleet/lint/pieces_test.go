package lint

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// What we make of a document, and what of it when its places are lost, is what Fleet's
// own parser makes of it.
func TestLintReadsWhatFleetReads(t *testing.T) {
	for _, text := range []string{
		"a: 1", "a: 1.0", "a: 1.50", "a: -3", "a: +5", "a: 010", "a: 0x1f", "a: 0o17", "a: 0", "a: -0", "a: 00", "a: 1e3", "a: 1e15", "a: 1e20", "a: .5", "a: 1_000",
		"a: 123456789012345", "a: 999999999999999", "a: 1000000000000000", "a: 12345678901234567890", "a: yes", "a: No", "a: true", "a: null", "a: ~", "a:", "a: ''", "a: \"yes\"", "a: '1'",
		"a: on\nb: off", "- a\n- [b, {c: d}]", "[]", "{}", "a: []", "a: {}", "word", "5", "a: |\n  x\n  y\n", "a: >-\n  x\n  y\n", "a: &x {b: 1}\nc: *x", "a: &x [1, 2]\nb: [*x, *x]",
		"base: &b {x: 1, w: 2}\na: {<<: *b, w: 3}", "b: &b {x: 1}\nc: &c {x: 2, z: 3}\na: {<<: [*b, *c], q: 1}", "b: &b {x: 1}\na:\n  <<: *b\n  x: 5\n  w: 6",
		"a: !!str 1", "a: !!str yes", "a: !!str {b: c}", "a: !!int \"5\"", "a: !!float 1", "a: !!binary aGk=", "1: a", "true: b", "\"q\": c", "a: 1\na: 2\nb: 3", "? a\n: b",
		"a: 2026-11-22", "a: \"\\u00e9\"", "# words\na: 1 # more", "a: 'it''s'", "a: b c d", "a: - b", "a: ${x}", "a: .inf", "a: 3.14159", "a: 0.1", "a: -1.5e-3",
	} {
		var want any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			want = nil
		}
		docs, bad := manifest.Docs([]byte(text))
		if want == nil {
			continue
		}
		require.Empty(t, bad, text)
		require.Len(t, docs, 1, text)
		assert.Equal(t, want, manifest.Data(docs[0].Root), "%q", text)
		budget := manifest.MaxNodes
		root, what := manifest.Plain([]byte(text), 0, &budget)
		require.Empty(t, what, text)
		assert.Equal(t, want, manifest.Data(root), "%q, without places", text)
	}
}

// Numbers are written as they are read, whole ones without a point.
func TestLintNumbersAreWrittenOut(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -7: "-7", 1.5: "1.5", 999999999999999: "999999999999999", 1e15: "1e+15", -1e15: "-1e+15", 1e20: "1e+20", 0.001: "0.001"} {
		budget := 1
		assert.Equal(t, want, manifest.FromData(v, yamlnode.Pos{}, &budget).Text)
	}
}

// Of a document that unfolds to more than there is room for, the rest is left out.
func TestLintBudget(t *testing.T) {
	doc := map[string]any{"a": []any{"x", "y"}, "b": "z"} // five nodes
	whole := doc
	for room := range 8 {
		budget := room
		got := manifest.FromData(doc, yamlnode.Pos{}, &budget)
		if room >= 5 {
			require.Equal(t, any(whole), manifest.Data(got))
			require.Equal(t, room-5, budget)
			continue
		}
		require.NotEqual(t, any(whole), manifest.Data(got), room)
	}
	const most = 200 // lists and mappings in each other: yamlbound's
	for _, deep := range []int{most - 1, most + 2} {
		text := strings.Repeat("[", deep) + "1" + strings.Repeat("]", deep)
		docs, bad := manifest.Docs([]byte("a: " + text))
		require.Equal(t, deep < most, len(docs) == 1 && len(bad) == 0, "%d deep", deep)
	}
}

// Where documents begin, and what is in them.
func TestLintSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "1:",
		"a":                         "1:a",
		"a\n":                       "1:a\n",
		"a\n---\nb\n":               "1:a\n|3:b\n",
		"---\na\n---\n":             "1:|2:a\n|4:",
		"a\n---":                    "1:a\n|3:",
		"a\n--- b\nc\n":             "1:a\n|2: b\nc\n",
		"a\n--- # words\nb":         "1:a\n|3:b",
		"a\n---\t\nb":               "1:a\n|3:b",
		"a\n---b\nc":                "1:a\n---b\nc",
		"a\n ---\nb":                "1:a\n ---\nb",
		"a\r\n---\r\nb\r\n":         "1:a\r\n|3:b\r\n",
		"a\n\n\n---\n---\nb\n--- c": "1:a\n\n\n|5:|6:b\n|7: c",
	} {
		var got []string
		for _, p := range manifest.Split([]byte(text)) {
			got = append(got, fmt.Sprintf("%d:%s", p.Line, p.Text))
		}
		assert.Equal(t, want, strings.Join(got, "|"), "%q", text)
	}
	for text, blank := range map[string]bool{"": true, "\n \n": true, "# a\n  # b": true, "%YAML 1.1\n...\n": true, "a": false, "# a\nb": false, "....": false, "-": false} {
		assert.Equal(t, blank, manifest.Blank([]byte(text)), "%q", text)
	}
}

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
		assert.Equal(t, want, tree.loose(dir), dir)
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

// Text without quotes that Fleet reads as another text.
func TestLintLossy(t *testing.T) {
	for text, want := range map[string]string{"1.10": "1.1", "010": "8", "yes": "true", "1e3": "1000", "plain": "plain", "5": "5", "1.5": "1.5", "true": "true"} {
		assert.Equal(t, want, manifest.LossyAs(text), text)
		assert.Equal(t, want != text, manifest.Lossy(text), text)
	}
	assert.False(t, manifest.Lossy("[1, 2"), "what is no YAML")
	assert.False(t, manifest.Lossy("[1, 2]"), "what is no text")
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
	stored := func(files ...*lintFile) int { return (&linter{}).stored(&lintBundle{files: files}) }
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
	assert.Equal(t, "1 bundle in 2 files: 1 error, 2 warnings, 1 to know, 1 answered for in comments", r.Summary())
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
