package conform

import (
	"fmt"
	"os"
	"strings"
	"testing"

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
	rows.WriteString("| tree | methods |\n|---|---:|\n")
	for _, tree := range coverage.Trees {
		fmt.Fprintf(&rows, "| `%s` | %d of %d |\n", tree.Path, tree.Served, tree.Methods)
	}
	want := section(t, string(raw), "coverage", rows.String())
	c := conform(t, "", nil)
	want = section(t, want, "conformance", c.Markdown())
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(raw), "run go test ./sim/conform -run %s -update", t.Name())
}

// section puts a text between two marks of a document.
func section(t *testing.T, doc, name, text string) string {
	begin := strings.Index(doc, "<!-- "+name)
	end := strings.Index(doc, "<!-- /"+name+" -->")
	require.True(t, begin >= 0 && end > begin, name)
	first := begin + strings.Index(doc[begin:], "-->") + len("-->\n")
	return doc[:first] + text + doc[end:]
}
