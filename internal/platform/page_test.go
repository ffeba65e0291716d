package platform_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/platform"
)

var update = flag.Bool("update", false, "rewrite docs/platform.md and what cluster/clusterfile knows of the parts")

// TestPage: the page for people has every part, and the version that is installed.
func TestPage(t *testing.T) {
	const page, begin = "../../docs/platform.md", "<!-- parts -->\n\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	want := head + begin + table() + rest
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(text), "run go test ./internal/platform -run TestPage -update")
}

// table has a row for each part.
func table() string {
	var b strings.Builder
	b.WriteString("| part in charts.versions, .values, .via | namespace | chart | pinned |\n|---|---|---|---|\n")
	var rest []string
	for _, part := range platform.Parts(&spec.Spec{}) {
		i := part.Info()
		if i.Chart.Chart == "" {
			rest = append(rest, "`"+i.Name+"`")
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", i.Name, i.Namespace, i.Chart.Chart, i.Chart.Version)
	}
	fmt.Fprintf(&b, "| %s | | objects only | |\n", strings.Join(rest, ", "))
	return b.String()
}

// TestParts: what the reader of a file knows of the parts with a chart is what they say of themselves.
func TestParts(t *testing.T) {
	const file = "../../cluster/clusterfile/parts.json"
	type part struct {
		Name, Section, Chart, Version string
		Shared                        bool `json:",omitempty"`
	}
	var all []part
	for _, p := range platform.Parts(&spec.Spec{}) {
		if i := p.Info(); i.Chart.Chart != "" {
			all = append(all, part{i.Name, i.Section, i.Chart.Chart, i.Chart.Version, i.Shared})
		}
	}
	want, err := json.MarshalIndent(all, "", "  ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, append(want, '\n'), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want)+"\n", string(have), "go test ./internal/platform -run TestParts -update")
}
