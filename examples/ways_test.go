package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWaysAreTested: each cell of the table of distributions and machines names tests that there are or a refusal that
// is in the code, or says that there is none of both.
func TestWaysAreTested(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- ways -->")
	table, _, _ = strings.Cut(table, "<!-- end of ways -->")
	code, tests := sources(t), testNames(t)
	test, refusal := regexp.MustCompile("`(Test[A-Za-z0-9]+)`"), regexp.MustCompile("refused: ‘([^’]+)’")
	rows := strings.Split(strings.TrimSpace(table), "\n")[2:]
	require.Len(t, rows, 11)
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		require.Len(t, cells, 7, row)
		for _, cell := range cells[1:] {
			named, refused := test.FindAllStringSubmatch(cell, -1), refusal.FindAllStringSubmatch(cell, -1)
			assert.True(t, len(named)+len(refused) > 0 || cell == "untested", cell)
			for _, m := range named {
				assert.True(t, tests[m[1]], "there is no %s", m[1])
			}
			for _, m := range refused {
				assert.Contains(t, code, m[1])
			}
		}
	}
}

// testNames are the tests of all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	name, found := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`), map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range name.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
		return err
	}))
	return found
}
