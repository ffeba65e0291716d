package clusterfile

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

const page = "../../docs/cluster-yaml.md"

// TestPage holds the tables of docs/cluster-yaml.md against the sections: a table follows the comment
// that names its section. With -update it writes them, and adds the sections that the page lacks.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	want := withTables(t, string(text))
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	if want != string(text) && !*update {
		assert.Equal(t, want, string(text), "run go test ./cluster/clusterfile -run TestPage -update")
	}
}

// withTables is the page with the table of every section.
func withTables(t *testing.T, text string) string {
	root := reflect.TypeFor[spec.Spec]()
	paths, before := sectionPaths(root), ""
	for _, section := range sections(root) {
		name := decode.Name(section)
		if section == root {
			name = "root"
		}
		if name == "Defaults" {
			continue
		}
		comment := "<!-- " + name + " -->\n"
		if !strings.Contains(text, comment) {
			head, rest, _ := strings.Cut(text, before)
			own := fmt.Sprintf("\n#%s `%s`\n\n%s\n%s", strings.Repeat("#", 1+strings.Count(paths[section], ".")), paths[section], comment, tableHead)
			text = head + before + own + rest
		}
		head, rest, _ := strings.Cut(text, comment)
		intro, rest, ok := strings.Cut(rest, tableHead)
		require.True(t, ok, "%s: there is no table %q", name, tableHead)
		for strings.HasPrefix(rest, "|") {
			_, rest, _ = strings.Cut(rest, "\n")
		}
		before = rows(section)
		text = head + comment + intro + tableHead + before + rest
		before = comment + intro + tableHead + before
	}
	return text
}

const tableHead = "| key | default | |\n|---|---|---|\n"

// sectionPaths are the places of sections in the file.
func sectionPaths(root reflect.Type) map[reflect.Type]string {
	out := map[reflect.Type]string{}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range decode.Fields(t) {
			at, of := strings.TrimPrefix(path+"."+f.Name, "."), f.Type
			if f.Named {
				at += ".NAME"
			}
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if _, known := out[of]; decode.IsSection(of) && !known {
				out[of] = at
				walk(of, at)
			}
		}
	}
	walk(root, "")
	return out
}

// rows are those of a section's table. The keys of a node's shape, which pools have too, are told once.
func rows(section reflect.Type) string {
	var b strings.Builder
	told := map[reflect.Type][]string{
		reflect.TypeFor[spec.Pool](): decode.Keys(reflect.TypeFor[spec.Shape]()), reflect.TypeFor[spec.Node](): decode.Keys(reflect.TypeFor[spec.Shape]()),
		reflect.TypeFor[spec.VM](): decode.Keys(reflect.TypeFor[spec.Node]()), reflect.TypeFor[spec.ArgoCD](): decode.Keys(reflect.TypeFor[spec.Fleet]()),
	}
	for _, f := range decode.Fields(section) {
		if !slices.Contains(told[section], f.Name) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, quoted(absent(f)), quoted(f.Doc))
		}
	}
	return b.String()
}

// absent is what an absent key stands for, in words.
func absent(f decode.Field) string {
	switch {
	case f.Required != "":
		return "required"
	case f.Absent != "":
		return f.Absent
	case f.Default != "" && f.Type.Kind() == reflect.Slice:
		return "‘[" + strings.ReplaceAll(f.Default, ",", ", ") + "]’"
	case f.Default != "" && (f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Float64 || f.Type == reflect.TypeFor[spec.Size]() || f.Type == reflect.TypeFor[time.Duration]()):
		return f.Default
	case f.Default != "":
		return "‘" + f.Default + "’"
	case f.Type.Kind() == reflect.Bool:
		return "‘false’"
	case f.Type.Kind() == reflect.Int:
		return "0"
	}
	return "none"
}

func quoted(s string) string { return strings.NewReplacer("‘", "`", "’", "`").Replace(s) }

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// description is what an editor shows of a key.
func description(f decode.Field) string {
	text := f.Doc
	is := cmp.Or(f.Absent, f.Default)
	if with, ok := strings.CutPrefix(is, "required"); ok && with != "" {
		text += " Required" + with + "."
	} else if !ok && is != "" {
		text += " Default: " + strings.TrimSuffix(is, ".") + "."
	}
	return strings.NewReplacer("‘", "", "’", "").Replace(link.ReplaceAllString(text, "$1"))
}
