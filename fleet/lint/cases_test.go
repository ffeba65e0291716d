package lint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// lintCase is a small repository of testdata/cases. In a file of cases, "=== NAME" begins
// one, with options in JSON behind it, "--- PATH" a file of it, and "--- want", its last,
// what the linter says of it: all of it, and nothing else.
type lintCase struct {
	head, name string
	opt        Options
	files      fstest.MapFS
	body       string // as written, up to what is wanted
	want       string
}

func lintCasesOf(t *testing.T, file string) (out []lintCase) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, text := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		text, want, _ := strings.Cut(text+"\n", "\n--- want\n")
		head, body, _ := strings.Cut(text, "\n")
		c := lintCase{head: head, body: body, want: strings.TrimRight(want, "\n"), files: fstest.MapFS{}}
		name, options, ok := strings.Cut(head, " {")
		if c.name = name; ok {
			require.NoError(t, json.Unmarshal([]byte("{"+options), &c.opt), head)
		}
		for _, part := range strings.Split("\n"+body, "\n--- ")[1:] {
			path, content, _ := strings.Cut(part, "\n")
			c.files[path] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
		out = append(out, c)
	}
	return out
}

// Small repositories, and all that the linter says of each, with the lines and columns.
func TestLintCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	rules := lintRuleIndex()
	for _, file := range files {
		var all strings.Builder
		for _, c := range lintCasesOf(t, file) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+c.name, func(t *testing.T) {
				var said []string
				for _, f := range lintAll(t, c.files, c.opt) {
					said = append(said, f.String())
					if f.Cure != rules[f.Rule].Cure {
						said = append(said, "    "+f.Cure)
					}
				}
				got := strings.Join(said, "\n")
				all.WriteString("=== " + c.head + "\n" + c.body + "\n--- want\n" + got + "\n\n")
				if !*update {
					require.Equal(t, c.want, got)
				}
			})
		}
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(strings.TrimRight(all.String(), "\n")+"\n"), 0o644))
		}
	}
}
