package hub_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/fleet/lint/internal/hub"
	"github.com/cps-gpu/homelab/fleet/lint/internal/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

// Each case is a release's values, with later files below lines of dashes, and all that is said
// of them.
func TestFindings(t *testing.T) {
	const file = "testdata/cases.txt"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var all strings.Builder
	for _, text := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		text, want, _ := strings.Cut(text, "\n>>>")
		name, body, _ := strings.Cut(text, "\n")
		var v hub.Values
		for i, source := range strings.Split(body, "\n---\n") {
			docs, bad := manifest.Docs([]byte(source))
			require.Empty(t, bad, name)
			require.Len(t, docs, 1, name)
			v = append(v, hub.Source{File: fmt.Sprint(i + 1), Text: []byte(source), Root: docs[0].Root})
		}
		partial := strings.HasSuffix(name, "(partial)")
		found := v.Python(func(text string) bool { return strings.Contains(text, "${") })
		found = append(found, v.Conflicts(partial)...)
		got := ""
		for _, f := range found {
			require.NotEmpty(t, f.Cure, name)
			got += fmt.Sprintf("\n%s:%d:%d %t: %s", f.File, f.At.Line, f.At.Col, f.Fatal, f.What)
		}
		if !*update {
			require.Equal(t, strings.TrimRight(want, "\n"), got, name)
		}
		all.WriteString("=== " + text + "\n>>>" + got + "\n\n")
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(strings.TrimRight(all.String(), "\n")+"\n"), 0o644))
	}
}
