package examples_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	target = regexp.MustCompile(`go tool mage ([a-z][a-z0-9]*(?::[a-z]+)?)`)
	link   = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
)

// TestDocsNameWhatIsThere: each target and each file that a page names exists.
func TestDocsNameWhatIsThere(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "tool", "mage", "-l")
	list.Dir = ".."
	out, err := list.Output()
	require.NoError(t, err)
	targets := strings.Fields(string(out))
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range target.FindAllStringSubmatch(string(text), -1) {
			assert.True(t, slices.Contains(targets, m[1]), "%s: there is no target %s", page, m[1])
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
				assert.NoError(t, err, "%s: a link leads nowhere", page)
			}
		}
	}
}

// TestFailuresAreReal: every message in a heading of docs/failures.md is in the code,
// and so is each in its tables.
func TestFailuresAreReal(t *testing.T) {
	code := sources(t)
	text, err := os.ReadFile("../docs/failures.md")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(text)) {
		m := symptom.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		for part := range strings.SplitSeq(m[1], "…") {
			part = strings.TrimSpace(part)
			assert.True(t, strings.Contains(code, part), "docs/failures.md: nothing says %q", part)
		}
		found++
	}
	assert.Greater(t, found, 40)
}

var symptom = regexp.MustCompile("^(?:### |\\| )`([^`]+ [^`]+)`")

// sources returns the library's code in one text, without tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"../.git", "../.lab", "../sim/lab", "../sim/pvesim"}, path):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		all.WriteString(joined.ReplaceAllString(string(data), ""))
		return err
	}))
	return all.String()
}

// joined is where a string is continued in the next line.
var joined = regexp.MustCompile("\" \\+\\n\\s*\"")
