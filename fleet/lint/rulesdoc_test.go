package lint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const lintDocsFrom = "<!-- From here on: go test ./fleet/lint -run TestLintDocs -update -->\n"

// The rules in docs/fleet-lint.md are the table's, with the examples of the tests:
// they cannot say something else.
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
	var b bytes.Buffer
	fmt.Fprint(&b, "\n| rule | | what |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.ID, r.ID, r.Severity, r.Summary)
	}
	for _, r := range Rules() {
		fmt.Fprintf(&b, "\n### %s\n\n%s", r.ID, r.Severity)
		if r.Failure != "" {
			fmt.Fprintf(&b, ", catches %s", r.Failure)
		}
		fmt.Fprintf(&b, ". %s\n", r.Summary)
		f := lintFixtureOf(t, r)
		bad, good := lintExample(t, f, "bad"), lintExample(t, f, "good")
		found := lintFound(t, f)
		fmt.Fprintf(&b, "\nBad:\n\n%s", show(bad, good, found))
		for _, line := range found {
			fmt.Fprintf(&b, "> %s\n", line)
		}
		fmt.Fprintf(&b, "\nGood:\n\n%s", show(good, bad, nil))
		fmt.Fprintf(&b, "\nWhat to do: %s.\nSource: %s.\n", r.Cure, r.Source)
	}
	return b.String()
}

func lintFound(t *testing.T, f lintFixture) (out []string) {
	want, err := os.ReadFile(filepath.Join(f.dir, "want"))
	require.NoError(t, err)
	for line := range strings.Lines(string(want)) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, fmt.Sprintf("`%s` %s  ", at, strings.NewReplacer("<", "&lt;", "*", "\\*").Replace(what)))
	}
	return out
}

// lintExample reads a side of a fixture; options that matter are the first file.
func lintExample(t *testing.T, f lintFixture, side string) map[string]string {
	out := map[string]string{}
	root := filepath.Join(f.dir, side)
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(p), filepath.ToSlash(root)+"/")
		if to, err := os.Readlink(p); err == nil {
			out[name] = "(a symbolic link to " + to + ")\n"
			return nil
		}
		data, err := os.ReadFile(p)
		out[name] = string(data)
		return err
	}))
	if f.rule.ID == "bundle-size" && side == "bad" {
		out["app/model.bin"] = "(2 MiB that cannot be packed)\n"
	}
	return out
}

// show prints the files that the other side lacks, and those of findings.
func show(files, other map[string]string, found []string) string {
	var names []string
	for name, text := range files {
		in := slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "`"+name+":") })
		if other[name] != text || in {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		for name := range files {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("```yaml\n")
	for _, name := range names {
		text := files[name]
		if len(text) > 1200 {
			text = text[:1200] + "…\n"
		}
		fmt.Fprintf(&b, "# %s\n%s", name, text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// Every rule is in the documentation with a bad and a good example.
func TestLintDocsHaveEveryRule(t *testing.T) {
	doc, err := os.ReadFile("../../docs/fleet-lint.md")
	require.NoError(t, err)
	for _, r := range Rules() {
		_, section, ok := strings.Cut(string(doc), "\n### "+r.ID+"\n")
		require.True(t, ok, r.ID)
		section, _, _ = strings.Cut(section, "\n### ")
		require.Contains(t, section, "\nBad:\n\n```yaml\n", r.ID)
		require.Contains(t, section, "\nGood:\n\n```yaml\n", r.ID)
		require.Contains(t, section, r.Source, r.ID)
	}
}
