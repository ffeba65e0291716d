package examples_test

import (
	"encoding/json"
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

	"github.com/cps-gpu/homelab/cluster/clusterfile"
)

// object is the part of a JSON Schema that lists keys.
type object struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Defs       map[string]object          `json:"$defs"`
}

// keys lists those of a type of cluster.yaml. Pools and nodes have a shape's keys too,
// which are told once.
func (o object) keys(name string) []string {
	out := []string{}
	for key := range o.Defs[name].Properties {
		if _, shared := o.Defs["Shape"].Properties[key]; !shared || name != "Pool" && name != "Node" {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryKeyIsDocumented holds the tables of docs/cluster-yaml.md against the schema,
// both ways: each key has a row with its default and its effect.
func TestEveryKeyIsDocumented(t *testing.T) {
	var schema object
	require.NoError(t, json.Unmarshal(clusterfile.Schema(), &schema))
	schema.Defs["root"] = object{Properties: schema.Properties}
	tables := keyTables(t)
	for name := range schema.Defs {
		assert.Equal(t, schema.keys(name), tables[name], "the table <!-- %s --> of docs/cluster-yaml.md", name)
		delete(tables, name)
	}
	assert.Empty(t, tables, "tables of types that there are not")
}

var (
	tableName = regexp.MustCompile(`^<!-- (\w+) -->$`)
	tableKey  = regexp.MustCompile("^\\| `(\\w+)`( †)? \\| *[^ |].* \\| *[^ |].* \\|$") // its default and its effect are told
)

// keyTables reads the first column of each table that a comment names.
func keyTables(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/cluster-yaml.md")
	require.NoError(t, err)
	tables, name := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := tableName.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if m := tableKey.FindStringSubmatch(line); m != nil {
			tables[name] = append(tables[name], m[1])
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("this row is not understood, or has no default or no effect: %s", line)
		}
	}
	for _, keys := range tables {
		slices.Sort(keys)
	}
	return tables
}

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
