package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const lintDocsFrom = "<!-- From here on: go test ./fleet/lint -run TestLintDocs -update -->\n"

// The rules in docs/fleet-lint.md are the table's. Each has a bad and a good example, to which
// the page leads.
func TestLintDocs(t *testing.T) {
	const name = "../../docs/fleet-lint.md"
	doc, err := os.ReadFile(name)
	require.NoError(t, err)
	head, have, ok := strings.Cut(string(doc), lintDocsFrom)
	require.True(t, ok, "%s lost the line %s", name, lintDocsFrom)
	want := lintDocsOf(t)
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(head+lintDocsFrom+want), 0o644))
		return
	}
	require.Equal(t, want, have, "run: go test ./fleet/lint -run TestLintDocs -update")
}

func lintDocsOf(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, r := range Rules() {
		dir := lintFixtureOf(t, r).dir
		for _, side := range []string{"bad", "good"} {
			assert.DirExists(t, filepath.Join(dir, side))
		}
		fmt.Fprintf(&b, "\n### [%s](../fleet/lint/%s)\n\n%s: %s Fix: %s.\n", r.ID, filepath.ToSlash(dir), r.Severity, r.Summary, r.Cure)
	}
	return b.String()
}
