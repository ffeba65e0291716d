package yamlnode_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// read returns a text's documents, what is odd in them, and how many nodes they unfold to.
func read(t *testing.T, text string, budget int) (docs []*yamlnode.Node, odd []string, nodes int) {
	t.Helper()
	left := budget
	r := yamlnode.Reader{Budget: &left, Odd: func(o yamlnode.Oddity) {
		odd = append(odd, strings.TrimSpace(fmt.Sprintf("%d at %d:%d %s", o.What, o.At.Line, o.At.Col, o.Name)))
	}}
	docs, err := r.Read([]byte(text))
	require.NoError(t, err, "%q", text)
	return docs, odd, budget - left
}

// written shows a node on one line, with the place of each value.
func written(n *yamlnode.Node) string {
	at := fmt.Sprintf("@%d:%d", n.At.Line, n.At.Col)
	switch n.Kind {
	case yamlnode.Map:
		var parts []string
		for _, f := range n.Fields {
			parts = append(parts, f.Name+"="+written(f.Value))
		}
		return "{" + strings.Join(parts, " ") + "}" + at
	case yamlnode.List:
		var parts []string
		for _, i := range n.Items {
			parts = append(parts, written(i))
		}
		return "[" + strings.Join(parts, " ") + "]" + at
	case yamlnode.Null:
		return "null" + at
	}
	return map[bool]string{true: n.Text, false: fmt.Sprintf("%q", n.Text)}[n.Plain] + at
}

func TestValuesKnowTheirPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"\ufeffa: b":                            "{a=b@1:4}@1:1",
		"a:\n  b: [1, 'c']":                     `{a={b=[1@2:7 "c"@2:10]@2:3}@1:1}@1:1`,
		"a: &x {b: 1}\nc: *x":                   "{a={b=1@1:11}@1:1 c={b=1@1:11}@2:1}@1:1",
		"a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}": "{a={b=1@1:11 c=2@1:17}@1:1 d={b=3@2:16 c=2@1:17}@2:1}@1:1",
		"a: {b: [01:00, 02:00.0]}":              "{a={b=[01:00@1:9 02:00.0@1:16]@1:5}@1:1}@1:1",
		"a: !!str 5":                            `{a="5"@1:9}@1:1`,
		"a: &x {b: 1}\nc: &y {b: 2, d: 3}\ne: {<<: [*x, *y]}": "{a={b=1@1:11}@1:1 c={b=2@2:11 d=3@2:17}@2:1 e={b=1@1:11 d=3@2:17}@3:1}@1:1",
		"? a\n: b":               "{a=b@2:3}@1:1",
		"a: |\n  b\n":            `{a="b\n"@1:4}@1:1`,
		"1: a\ntrue: b\nnull: c": "{1=a@1:4 true=b@2:7 null=c@3:7}@1:1",
	} {
		docs, odd, _ := read(t, text, 1000)
		require.Len(t, docs, 1, "%q", text)
		assert.Equal(t, want, written(docs[0]), "%q", text)
		assert.Empty(t, odd, "%q", text)
	}
}

func TestWhatIsOdd(t *testing.T) {
	for text, want := range map[string]string{
		"a: *b":                fmt.Sprint(yamlnode.NoAnchor) + " at 1:4 b",
		"a: !mine b":           fmt.Sprint(yamlnode.Tagged) + " at 1:4 !mine",
		"a: &x 1\n*x : b":      fmt.Sprint(yamlnode.NoText) + " at 2:1",
		"a: &x b\nc: {<<: *x}": fmt.Sprint(yamlnode.NoMap) + " at 1:7",
		"a: b\na: c":           fmt.Sprint(yamlnode.Twice) + " at 2:1 a",
	} {
		_, odd, _ := read(t, text, 1000)
		assert.Equal(t, []string{want}, odd, "%q", text)
	}
	docs, _, _ := read(t, "a: b\na: c", 1000)
	assert.Equal(t, "c", docs[0].Get("a").Text, "the last one counts, as in the parser of Kubernetes")
	assert.Equal(t, "b", docs[0].Twice[0].Value.Text)
}

// An alias counts as much as what it stands for, so that a short file cannot unfold to a
// long one.
func TestWhatAFileUnfoldsTo(t *testing.T) {
	for text, want := range map[string]int{
		"a: b":                               2,
		"a: [b, c, {d: e}]":                  6,
		"a: &x [b, c]\nd: *x":                9,
		"a: &x [b, c]\nd: [*x, *x]":          14,
		"a: &x {b: [c, d]}\ng: {<<: [*x]}":   13,
		"a: &x {b: c}\nd: [*x, *x]\ne: null": 12,
	} {
		docs, odd, nodes := read(t, text, want)
		require.Len(t, docs, 1)
		require.Empty(t, odd, text)
		assert.Equal(t, want, nodes, "%q", text)
		_, odd, _ = read(t, text, want-1)
		assert.Equal(t, 1, tooMuch(odd), "%q: said once", text)
	}
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 {x: 1}\n")
	for i := range 20 {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		bomb.WriteString(to + "0: &" + to + "0 {p: {<<: *" + from + "0}, q: {<<: *" + from + "0}}\n")
	}
	_, odd, _ := read(t, bomb.String(), 1<<20)
	assert.Equal(t, 1, tooMuch(odd))
}

func tooMuch(odd []string) int {
	return len(slices.DeleteFunc(odd, func(s string) bool { return !strings.HasPrefix(s, fmt.Sprint(yamlnode.TooMuch)+" ") }))
}

func TestDocuments(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "# words": 0, "%YAML 1.1\n# words\n---\na: b": 1, "a: b\n---\nc: d": 2,
	} {
		docs, _, _ := read(t, text, 100)
		assert.Len(t, docs, want, "%q", text)
	}
	r := yamlnode.Reader{Skip: 10, Budget: new(int), Odd: func(yamlnode.Oddity) {}}
	_, err := r.Read([]byte("a: [secret"))
	at, what := r.Reason(err)
	assert.Equal(t, yamlnode.Pos{Line: 11, Col: 4}, at)
	assert.NotContains(t, what, "secret")
	at, what = r.Reason(&yaml.SyntaxError{Message: "odd"})
	assert.Zero(t, at)
	assert.Equal(t, "odd", what)
	_, what = r.Reason(yamlnode.ErrParser)
	assert.Equal(t, yamlnode.ErrParser.Error(), what)
}

func TestWhatIsNotThere(t *testing.T) {
	var none *yamlnode.Node
	assert.Nil(t, none.Get("a", "b"))
	assert.Empty(t, none.Str())
	assert.Empty(t, none.List())
	assert.Empty(t, none.Entries())
	assert.Zero(t, none.Place())
	assert.Zero(t, none.Key("a"))
	assert.False(t, none.Set())
	assert.False(t, (&yamlnode.Node{Kind: yamlnode.Null}).Set())
	assert.True(t, (&yamlnode.Node{Kind: yamlnode.List}).Set())
	docs, _, _ := read(t, "a: {b: 1, c: 2}\nd: x", 100)
	n := docs[0]
	assert.Equal(t, "1", n.Get("a", "b").Str())
	assert.Nil(t, n.Get("d", "b"))
	assert.Equal(t, yamlnode.Pos{Line: 2, Col: 1}, n.Key("d"))
	assert.Equal(t, "{a={b=1@1:8 c=2@1:14}@1:1}@1:1", written(n.Without("d")))
	assert.Equal(t, n, n.With("d", n.Get("a")))
	assert.Equal(t, "{b=1@1:8 c=2@1:14 e=x@2:4}@1:1", written(n.Get("a").With("e", n.Get("d"))))
	assert.Nil(t, n.Get("d").AsMap())
	for _, name := range []string{"a", "d", "none"} {
		_, there := n.Field(name)
		assert.Equal(t, there, n.Has(name), name)
		assert.Equal(t, there, n.Get(name) != nil, name)
		assert.False(t, n.Without(name).Has(name), name)
		assert.True(t, n.With(name, n).Has(name), name)
	}
	for _, scalar := range []*yamlnode.Node{nil, n.Get("d")} {
		assert.Same(t, scalar, scalar.Without("a"), "it has no keys")
	}
}
