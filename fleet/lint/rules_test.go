package lint

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/kube/helm"
)

// lintFixture is the folder of a rule: bad/ and good/ are repositories, options.yaml
// says what the linter is told about them, want lists FILE:LINE:COLUMN of what it
// must find in bad/.
type lintFixture struct {
	rule Rule
	dir  string
	opt  Options
}

func lintFixtureOf(t testing.TB, rule Rule) lintFixture {
	f := lintFixture{rule: rule, dir: filepath.Join("testdata", "rules", rule.ID)}
	data, err := os.ReadFile(filepath.Join(f.dir, "options.yaml"))
	if os.IsNotExist(err) {
		return f
	}
	require.NoError(t, err)
	var o struct {
		Repo      string    `json:"repo"`
		Paths     []string  `json:"paths"`
		Clusters  []Cluster `json:"clusters"`
		Elsewhere []string  `json:"elsewhere"`
		Site      *Site     `json:"site"`
		Charts    string    `json:"charts"`
		Online    bool      `json:"online"`
	}
	require.NoError(t, yaml.UnmarshalStrict(data, &o))
	f.opt = Options{BundleScan: BundleScan{GitRepo: o.Repo, Paths: o.Paths}, Clusters: o.Clusters, Elsewhere: o.Elsewhere, Site: o.Site, Online: o.Online}
	if o.Charts != "" {
		f.opt.Charts = &helm.Source{Folder: filepath.Join(f.dir, o.Charts), Cache: tempDir(t)}
	}
	return f
}

func tempDir(t testing.TB) string { return t.TempDir() }

// side is a repository of the fixture, with what is too big to keep.
func (f lintFixture) side(t testing.TB, name string) fs.FS {
	dir := os.DirFS(filepath.Join(f.dir, name))
	if f.rule.ID != "bundle-size" || name != "bad" {
		return dir
	}
	m := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, p)
		m[p] = &fstest.MapFile{Data: data}
		return err
	}))
	noise := make([]byte, 2<<20)
	_, _ = rand.Read(noise)
	m["app/model.bin"] = &fstest.MapFile{Data: noise}
	return m
}

var update = flag.Bool("update", false, "write the golden files")

// Each rule finds what is wrong in its bad repository, there and nothing else, and
// nothing in its good one.
func TestLintRules(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			f := lintFixtureOf(t, rule)
			var at []string
			for _, found := range lintAll(t, f.side(t, "bad"), f.opt) {
				if found.Severity == Info && found.Rule != rule.ID {
					continue
				}
				require.Equal(t, rule.ID, found.Rule, "%s", found)
				require.NotEmpty(t, found.Cure, "%s", found)
				if found.Rule == "chart-unreachable" { // in another package's words
					found.Message = "…"
				}
				at = append(at, fmt.Sprintf("%s:%d:%d %s\n", found.File, found.Line, found.Column, found.Message))
			}
			require.NotEmpty(t, at, "nothing found in %s/bad", f.dir)
			want := filepath.Join(f.dir, "want")
			if *update {
				require.NoError(t, os.WriteFile(want, []byte(strings.Join(at, "")), 0o644))
			}
			golden, err := os.ReadFile(want)
			require.NoError(t, err)
			require.Equal(t, string(golden), strings.Join(at, ""))

			for _, found := range lintAll(t, f.side(t, "good"), f.opt) {
				require.True(t, found.Severity == Info && found.Rule != rule.ID, "good: %s", found)
			}
		})
	}
}

func lintAll(t testing.TB, fsys fs.FS, o Options) []Finding {
	r, err := Run(lintContext(t), fsys, o)
	require.NoError(t, err)
	return r.Findings
}

func lintContext(t testing.TB) context.Context { return t.Context() }

// Every folder of examples is a rule's: a rule that is gone takes its examples along.
func TestLintExamplesAreOfRules(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("testdata", "rules"))
	require.NoError(t, err)
	rules := lintRuleIndex()
	require.Len(t, rules, len(Rules()), "two rules have one name")
	for _, e := range entries {
		require.Contains(t, rules, e.Name())
	}
	require.Len(t, entries, len(rules), "each rule has its folder")
}

// Every failure of the catalogue that can be known from a repository has its rule.
func TestLintCatchesEveryFailure(t *testing.T) {
	caught := map[string]bool{}
	for _, r := range Rules() {
		caught[r.Failure] = true
	}
	for i := 1; i <= 9; i++ {
		require.True(t, caught[fmt.Sprintf("F%d", i)], "F%d", i)
	}
}

// A third of the rules at least are what nobody had on the list, and cite their place
// in Fleet's source.
func TestLintRulesCiteTheirSource(t *testing.T) {
	own := 0
	for _, r := range Rules() {
		for what, text := range map[string]string{"summary": r.Summary, "cure": r.Cure, "source": r.Source} {
			require.NotEmpty(t, text, "%s: %s", r.ID, what)
		}
		if r.Failure == "" && strings.Contains(r.Source, ".go") {
			own++
		}
	}
	require.GreaterOrEqual(t, own*10, len(Rules())*3)
	t.Logf("%d rules, %d of them found in Fleet's source", len(Rules()), own)
}
