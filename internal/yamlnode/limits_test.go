package yamlnode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// size is of the files that are tried: in 200 KB there is room for gigabytes.
const size = 200 << 10

// allowed is what reading size bytes may allocate, all that is thrown away again
// counted: a dense flow of one-letter values takes most of it.
const allowed = 160 << 20

func repeat(s string) string { return strings.Repeat(s, size/len(s)) }

// some is a quarter of that, for what is read to its end.
func some(s string) string { return strings.Repeat(s, size/4/len(s)) }

// staircase is a mapping in a mapping in a mapping, a column further in each line.
func staircase() string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

var hostile = map[string]string{
	"lists":              repeat("["),
	"mappings":           repeat("{a: "),
	"lists of mappings":  repeat("[{a: "),
	"a list in a line":   repeat("- "),
	"explicit keys":      repeat("? "),
	"explicit in a flow": "[" + repeat("? "),
	"columns":            staircase(),
	"tags":               repeat("!a "),
	"tags in lines":      repeat("!a\n"),
	"tags in a flow":     "[" + repeat("!a "),
	"anchors":            repeat("a: &a 1\n"),
	"anchors in a line":  repeat("&a "),
	"aliases":            "a: &a 1\nb: [" + repeat("*a,") + "]",
	"documents":          repeat("---\n"),
	"ends":               repeat("...\n"),
	"keys":               repeat("a: b\n"),
	"empty lines":        "a: |\n x\n" + repeat("\n"),
	"empty lines, often": strings.Repeat("- >\n x\n"+strings.Repeat(" \n", 1000), 90),
	"empty keys":         repeat("a:\n"),
	"empty entries":      repeat("-\n"),
	"empty in a flow":    "{" + repeat("a:,") + "}",
	"long keys":          strings.Repeat(strings.Repeat("k", 1000)+": {", 100) + strings.Repeat("a,", 50_000),
	"a long key":         strings.Repeat("k", size/2) + ":\n" + strings.Repeat(" - a\n", size/10),
}

func spent(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What takes gigabytes or minutes is refused, for little, with its place.
func TestHostile(t *testing.T) {
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			var err error
			bytes := spent(func() { _, err = Parse([]byte(text)) })
			var tooMuch *Error
			require.ErrorAs(t, err, &tooMuch)
			assert.Positive(t, tooMuch.Line)
			assert.Less(t, bytes, uint64(allowed))
		})
	}
}

// What is not YAML is refused for little, too.
func TestHostileNonsense(t *testing.T) {
	for _, text := range []string{"{" + repeat("a: "), repeat("]"), repeat("'"), repeat("&"), repeat("a: b: "), repeat("|\n")} {
		bytes := spent(func() { _, _ = Parse([]byte(text)) })
		assert.Less(t, bytes, uint64(allowed), "%.20q", text)
	}
}

// What is as large and flat is read.
func TestFlat(t *testing.T) {
	for name, text := range map[string]string{
		"text":         "a: |\n" + some("  some {[&*!? text\n"),
		"comments":     "a: 1\n" + some("# [[[ {{{ &a *b\n"),
		"quoted":       `a: "` + some("[{") + `"`,
		"single":       `a: '` + some("&a *a ") + `'`,
		"plain":        "a: x" + some("[{&*"),
		"entries":      "a:\n" + some("- b\n"),
		"mappings":     some("- a: 1\n  b: [1, 2]\n"),
		"deep enough":  strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		"in the flow":  "[" + some("a,") + "]",
		"flow, folded": "[" + some("a, # word\n") + "]",
		"nested lists": "a:\n" + some("- - b\n  - c\n"),
		"lists at key": strings.Repeat("a:\n- b\n", 1000),
		"keys":         strings.Repeat("a: b\n", 1000),
		"flow keys":    "{" + some("a: b, ") + "c: d}",
		"a text block": some("- |\n  text\n"),
		"anchored":     "a: &a {b: 1}\n" + strings.Repeat("- ", 0) + "c: *a\n",
	} {
		t.Run(name, func(t *testing.T) {
			bytes := spent(func() {
				_, err := Parse([]byte(text), parser.AllowDuplicateMapKey())
				require.NoError(t, err)
			})
			assert.Less(t, bytes, uint64(allowed))
		})
	}
}

// Files that people wrote are all read, and as the parser itself reads them.
func TestWritten(t *testing.T) {
	seen := 0
	for _, root := range []string{"../../examples", "../../fleet/lint/testdata", "../../fleet/testdata", "../../cluster/testdata"} {
		require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if strings.Contains(name, "/unread/bad/") || strings.Contains(name, "/broken/too-") {
				return nil // written to be too much
			}
			want, wantErr := parser.ParseBytes(data, 0)
			have, haveErr := Parse(data)
			var tooMuch *Error
			require.False(t, errors.As(haveErr, &tooMuch), "%s: %v", name, haveErr)
			require.Equal(t, wantErr == nil, haveErr == nil, "%s: %v and %v", name, wantErr, haveErr)
			if wantErr == nil {
				require.Equal(t, want.String(), have.String(), name)
			}
			seen++
			return nil
		}))
	}
	require.Greater(t, seen, 50)
}

// A file has as many bytes, or as many empty lines, as the limit; what has one more is refused before it is parsed.
func TestTooLong(t *testing.T) {
	for _, x := range []struct {
		one  string
		most int
		want Error
	}{
		{"#", maxBytes, Error{Line: 1, Column: 1, What: "4096 KiB of YAML, and at most 4096 are read"}},
		{"\n", 4096, Error{Line: 1, Column: 1, What: "4097 empty lines, one after the other", Long: true}},
	} {
		_, err := Parse([]byte(strings.Repeat(x.one, x.most)))
		require.NoError(t, err)
		_, err = Parse([]byte(strings.Repeat(x.one, x.most+1)))
		var tooMuch *Error
		require.ErrorAs(t, err, &tooMuch)
		assert.Equal(t, x.want, *tooMuch)
	}
}

// A count is at its limit before it is above.
func TestLimits(t *testing.T) {
	for name, count := range map[string]func(n int) counter{
		"names":     func(n int) counter { return counter{names: maxNames + n} },
		"documents": func(n int) counter { return counter{documents: maxDocuments + n} },
		"empty":     func(n int) counter { return counter{none: maxEmpty + n} },
		"siblings":  func(n int) counter { return counter{siblings: maxSiblings + n} },
		"paths":     func(n int) counter { return counter{paths: maxPaths + n} },
		"depth":     func(n int) counter { return counter{open: make([]frame, maxDepth+n)} },
		"run":       func(n int) counter { return counter{open: []frame{{run: maxDepth + n}}} },
	} {
		at, above := count(0), count(1)
		assert.Empty(t, at.tooMuch(), name)
		assert.NotEmpty(t, above.tooMuch(), name)
	}
}

// What is counted at a value in nested keys is the length of its path: a dot and a name for each.
func TestLengthsOfPaths(t *testing.T) {
	var text, path strings.Builder
	for depth := range 20 {
		name := strings.Repeat("k", 1+depth*7%5)
		text.WriteString(strings.Repeat(" ", depth) + name + ":\n")
		path.WriteString("." + name)
		var c counter
		for _, token := range tokenize(text.String() + strings.Repeat(" ", depth+1) + "v\n") {
			require.Empty(t, c.next(token))
		}
		assert.Equal(t, path.Len(), c.path, "%s", &path)
	}
}

// Documents cost what each of them costs alone, and so do the entries of a list: what is closed leaves nothing behind.
func TestCostsAdd(t *testing.T) {
	paths := func(text string) int {
		var c counter
		for _, token := range tokenize(text) {
			require.Empty(t, c.next(token), text)
		}
		return c.paths
	}
	texts := []string{"a: b\n", "a:\n  b: [c, {d: e}]\n  f:\n  - g\n  - h\n", "- a\n- b: c\n", "{a: [b, c], d: e}\n", "? a\n: b\n", "a: &x\n  b: 1\nc: *x\n", "a:\n\n  - - b\n    - c\n"}
	inside := func(text string) string {
		return "- " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
	}
	for _, a := range texts {
		assert.Positive(t, paths(a), a)
		for _, b := range texts {
			assert.Equal(t, paths(a)+paths(b), paths(a+"---\n"+b), "%q and %q", a, b)
			assert.Equal(t, paths(inside(a))+paths(inside(b)), paths(inside(a)+inside(b)), "%q and %q in a list", a, b)
		}
	}
}

// The first of the longest runs is named; blanks do not end one.
func TestBlanks(t *testing.T) {
	for text, want := range map[string][2]int{"a: b": {0, 0}, "a\n\n\nb\n\n\nc": {1, 3}, "a\nb\n \t\r\nc": {2, 3}} {
		line, n := blanks([]byte(text))
		assert.Equal(t, want, [2]int{line, n}, "%q", text)
	}
}

// What has as much as a limit is read; one more is refused. A list below its key is its value.
func TestAtTheLimits(t *testing.T) {
	for name, x := range map[string]struct {
		text func(n int) string
		most int
		says string
		at   [2]int // line and column of the one too many
	}{
		"anchors":   {func(n int) string { return strings.Repeat("- &x 1\n", n) }, maxNames, "more than 1000 anchors, aliases and tags", [2]int{1001, 3}},
		"documents": {func(n int) string { return strings.Repeat("---\na: b\n", n) }, maxDocuments, "more than 1000 documents", [2]int{2001, 1}},
		"entries":   {func(n int) string { return strings.Repeat("-\n", n+1) }, maxEmpty, "more than 2000 keys and entries without a value", [2]int{2002, 1}},
		"keys":      {func(n int) string { return strings.Repeat("a:\n", n+1) }, maxEmpty, "more than 2000 keys and entries without a value", [2]int{2002, 1}},
		"lists":     {func(n int) string { return strings.Repeat("a:\n- b\n", n) }, 2500, "", [2]int{}},
		"siblings":  {func(n int) string { return strings.Repeat("a: b\n", n) }, 4095, "too many keys in one mapping", [2]int{4096, 2}},
		"depth":     {func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }, maxDepth, "nested more than 200 deep", [2]int{1, 201}},
		"a flow":    {func(n int) string { return "{a: " + strings.Repeat("b ", n) + "}" }, 100, "", [2]int{}},
	} {
		_, err := Parse([]byte(x.text(x.most)), parser.AllowDuplicateMapKey())
		var tooMuch *Error
		require.False(t, errors.As(err, &tooMuch), "%s: %v", name, err)
		if _, err = Parse([]byte(x.text(x.most+1)), parser.AllowDuplicateMapKey()); x.says != "" {
			require.ErrorContains(t, err, x.says, name)
			require.ErrorAs(t, err, &tooMuch)
			require.Equal(t, name == "siblings", tooMuch.Long, name)
			require.Equal(t, x.at, [2]int{tooMuch.Line, tooMuch.Column}, name)
		}
	}
}

// Whatever is written over and over costs little.
func FuzzParse(f *testing.F) {
	for _, text := range hostile {
		f.Add(text[:min(len(text), 64)], "")
	}
	f.Add("- a\n", "b: &c [*c]\n")
	f.Fuzz(func(t *testing.T, again, once string) {
		if again == "" || len(again)+len(once) > 4<<10 {
			return
		}
		text := once + repeat(again)
		bytes := spent(func() { _, _ = Parse([]byte(text)) })
		require.Less(t, bytes, uint64(2*allowed), "%q and %q", again, once)
	})
}
