package simcheck

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocs holds the tables of docs/simulator.md against what they are about.
func TestDocs(t *testing.T) {
	const file = "../../docs/simulator.md"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	coverage, err := Coverage("../..")
	require.NoError(t, err)
	var rows strings.Builder
	rows.WriteString("| tree | methods | | parameters | | with effect | |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, tree := range coverage.Trees {
		fmt.Fprintf(&rows, "| `%s` | %d of %d | %s | %d of %d | %s | %d | %s |\n", tree.Path, tree.Served, tree.Methods, share(tree.Served, tree.Methods),
			tree.Taken, tree.Parameters, share(tree.Taken, tree.Parameters), tree.Effective, share(tree.Effective, tree.Taken))
	}
	want := section(t, string(raw), "coverage", rows.String())
	synctest.Test(t, func(t *testing.T) {
		c, err := Replay(t.Context())
		require.NoError(t, err)
		var list strings.Builder
		fmt.Fprintf(&list, "%d of %d agree (%.1f %%).\n\n| # | asked | why it differs |\n|---|---|---|\n", c.Agree, c.Total, 100*float64(c.Agree)/float64(c.Total))
		for _, d := range c.Differences {
			fmt.Fprintf(&list, "| %d | %s | %s |\n", d.Number, d.Asked, d.Reason)
		}
		want = section(t, want, "differences", list.String())
	})
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(raw), "run go test ./internal/simcheck -run %s -update", t.Name())
}

// section puts a text between two marks of a document.
func section(t *testing.T, doc, name, text string) string {
	begin := strings.Index(doc, "<!-- "+name)
	end := strings.Index(doc, "<!-- /"+name+" -->")
	require.True(t, begin >= 0 && end > begin, name)
	first := begin + strings.Index(doc[begin:], "-->") + len("-->\n")
	return doc[:first] + text + doc[end:]
}
