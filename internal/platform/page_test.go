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
	"github.com/cps-gpu/homelab/fleet"
	"github.com/cps-gpu/homelab/internal/platform"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/platform.md and docs/gitops.md, and what cluster/clusterfile knows of the parts")

// TestPages: the pages for people have every part: the version that is installed, and what Git tools deploy it.
func TestPages(t *testing.T) {
	for page, table := range map[string]string{"platform.md": table(), "gitops.md": gitOpsTable()} {
		const begin = "<!-- parts -->\n\n"
		page = "../../docs/" + page
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		head, rest, ok := strings.Cut(string(text), begin)
		require.True(t, ok, page)
		for strings.HasPrefix(rest, "|") {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		want := head + begin + table + rest
		if *update {
			require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
			continue
		}
		assert.Equal(t, want, string(text), "run go test ./internal/platform -run TestPages -update")
	}
}

// gitOpsTable has a row for all parts of which the tools can deploy the same, for the same reason.
func gitOpsTable() string {
	whens := []struct {
		when string
		file spec.Platform
	}{
		{"", spec.Platform{}},
		{" with `tls: self-signed`", spec.Platform{TLS: &spec.TLS{Source: spec.TLSSelfSigned}}},
		{" with `rancher`", spec.Platform{Rancher: &spec.Rancher{}}},
	}
	var rows []string
	parts, plain := map[string][]string{}, map[string]string{}
	for _, w := range whens {
		for _, part := range platform.Parts(&spec.Spec{Platform: w.file}) {
			i := part.Info()
			row, why := "", ""
			for _, tool := range fleet.Tools() {
				way := "Git"
				if never := i.Never(string(tool)); never != "" {
					way, why = "direct", never
				}
				row += " | " + way
			}
			row += strings.TrimRight(" | "+why, " ")
			if w.when == "" {
				plain[i.Name] = row
			} else if plain[i.Name] == row {
				continue
			}
			if parts[row] == nil {
				rows = append(rows, row)
			}
			parts[row] = append(parts[row], "`"+i.Name+"`"+w.when)
		}
	}
	var b strings.Builder
	titles := ""
	for _, tool := range fleet.Tools() {
		titles += " | " + tool.Title()
	}
	fmt.Fprintf(&b, "| part%s | why it is applied directly |\n|---|---|---|---|---|\n", titles)
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s%s |\n", strings.Join(parts[row], ", "), row)
	}
	return b.String()
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
