package words_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/words"
)

var (
	update = flag.Bool("update", false, "write the baseline; refused where it would grow")
	show   = flag.String("show", "", "print what is found below this folder, e.g. kube or docs/hub.md")
)

const (
	root     = "../.."
	baseline = "testdata/baseline.txt"
)

// TestRules: each rule finds its own example and nothing in the correction, and
// docs/style.md has a row for it.
func TestRules(t *testing.T) {
	style, err := os.ReadFile(root + "/docs/style.md")
	require.NoError(t, err)
	for _, r := range words.Rules() {
		assert.NotEmpty(t, words.Find([]words.Rule{r}, r.Wrong), r.Name)
		assert.Empty(t, words.Find(words.Rules(), r.Right), r.Name)
		assert.Contains(t, string(style), fmt.Sprintf("| %s | %s |\n", r.Wrong, r.Right))
	}
	for _, good := range []string{"there is no card", "there are no more than two", "it is no longer used", "no more pods come", "as asked for by the file"} {
		assert.Empty(t, words.Find(words.Rules(), good), good)
	}
}

// TestPlainWords: no folder has more such phrases than the baseline excepts.
func TestPlainWords(t *testing.T) {
	found := map[string][]string{}
	rules := words.Rules()
	add := func(folder, place, text string) {
		for _, f := range words.Find(rules, text) {
			found[folder] = append(found[folder], fmt.Sprintf("%s: %q: write %s (%s)", place, f.Phrase, f.Rule.Instead, f.Rule.Name))
		}
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name != root && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "internal/words"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			return ofSource(path, func(line int, text string) {
				add(filepath.ToSlash(filepath.Dir(name)), name+":"+strconv.Itoa(line), text)
			})
		case strings.HasSuffix(name, ".md") && name != "docs/style.md":
			return ofPage(path, func(line int, text string) { add(name, name+":"+strconv.Itoa(line), text) })
		}
		return nil
	}))
	if *show != "" {
		for _, folder := range slices.Sorted(maps.Keys(found)) {
			if strings.HasPrefix(folder, *show) {
				t.Log("\n" + strings.Join(found[folder], "\n"))
			}
		}
	}
	counts := map[string]int{}
	for folder, all := range found {
		counts[folder] = len(all)
	}
	compare(t, counts, found)
}

// compare holds the counts to the baseline, or writes it.
func compare(t *testing.T, counts map[string]int, found map[string][]string) {
	t.Helper()
	was, sumWas, sum := map[string]int{}, 0, 0
	text, err := os.ReadFile(baseline)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		folder, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		was[folder], err = strconv.Atoi(n)
		require.NoError(t, err)
		sumWas += was[folder]
	}
	var b strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[folder]
		fmt.Fprintf(&b, "%s %d\n", folder, counts[folder])
	}
	if *update {
		require.LessOrEqual(t, sum, sumWas, "the baseline only shrinks")
		require.NoError(t, os.WriteFile(baseline, []byte(b.String()), 0o600))
		return
	}
	for folder, n := range counts {
		assert.LessOrEqual(t, n, was[folder], "docs/style.md says why:\n%s", strings.Join(found[folder], "\n"))
	}
	for folder, n := range was {
		assert.GreaterOrEqual(t, counts[folder], n, "%s is better than its baseline: go test ./internal/words -update", folder)
	}
}

// ofSource gives out a Go file's comments and string literals.
func ofSource(path string, say func(line int, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		say(set.Position(group.Pos()).Line, strings.ReplaceAll(strings.TrimSpace(group.Text()), "\n", " "))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") {
				say(set.Position(lit.Pos()).Line, strings.ReplaceAll(text, "\n", " "))
			}
		}
		return true
	})
	return nil
}

// ofPage gives out a page's paragraphs, without blocks of code.
func ofPage(path string, say func(line int, text string)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fence, begin, paragraph := false, 0, []string(nil)
	flush := func() {
		say(begin, strings.Join(paragraph, " "))
		paragraph = nil
	}
	at := 0
	for line := range strings.Lines(string(text)) {
		at++
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fence = !fence
			flush()
		case fence || strings.HasPrefix(line, "    "):
		case line == "" || strings.HasPrefix(line, "|"):
			flush()
			if line != "" {
				say(at, line)
			}
		default:
			if len(paragraph) == 0 {
				begin = at
			}
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	flush()
	return nil
}
