package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// What we make of a document, and what of it when its places are lost, is what Fleet's
// own parser makes of it.
func TestLintReadsWhatFleetReads(t *testing.T) {
	for _, text := range []string{
		"a: 1", "a: 1.0", "a: 1.50", "a: -3", "a: +5", "a: 010", "a: 0x1f", "a: 0o17", "a: 0", "a: -0", "a: 00", "a: 1e3", "a: 1e15", "a: 1e20", "a: .5", "a: 1_000",
		"a: 123456789012345", "a: 999999999999999", "a: 1000000000000000", "a: 12345678901234567890", "a: yes", "a: No", "a: true", "a: null", "a: ~", "a:", "a: ''", "a: \"yes\"", "a: '1'",
		"a: on\nb: off", "- a\n- [b, {c: d}]", "[]", "{}", "a: []", "a: {}", "word", "5", "a: |\n  x\n  y\n", "a: >-\n  x\n  y\n", "a: &x {b: 1}\nc: *x", "a: &x [1, 2]\nb: [*x, *x]",
		"base: &b {x: 1, w: 2}\na: {<<: *b, w: 3}", "b: &b {x: 1}\nc: &c {x: 2, z: 3}\na: {<<: [*b, *c], q: 1}", "b: &b {x: 1}\na:\n  <<: *b\n  x: 5\n  w: 6",
		"a: !!str 1", "a: !!str yes", "a: !!str {b: c}", "a: !!int \"5\"", "a: !!float 1", "a: !!binary aGk=", "1: a", "true: b", "\"q\": c", "a: 1\na: 2\nb: 3", "? a\n: b",
		"a: 2026-11-22", "a: \"\\u00e9\"", "# words\na: 1 # more", "a: 'it''s'", "a: b c d", "a: - b", "a: ${x}", "a: .inf", "a: 3.14159", "a: 0.1", "a: -1.5e-3",
	} {
		var want any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			want = nil
		}
		docs, bad := Docs([]byte(text))
		if want == nil {
			continue
		}
		require.Empty(t, bad, text)
		require.Len(t, docs, 1, text)
		assert.Equal(t, want, Data(docs[0].Root), "%q", text)
		budget := MaxNodes
		root, what := plain([]byte(text), 0, &budget)
		require.Empty(t, what, text)
		assert.Equal(t, want, Data(root), "%q, without places", text)
	}
}

// Numbers are written as they are read, whole ones without a point.
func TestLintNumbersAreWrittenOut(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -7: "-7", 1.5: "1.5", 999999999999999: "999999999999999", 1e15: "1e+15", -1e15: "-1e+15", 1e20: "1e+20", 0.001: "0.001"} {
		budget := 1
		assert.Equal(t, want, FromData(v, yamlnode.Pos{}, &budget).Text)
	}
}

// Of a document that unfolds to more than there is room for, the rest is left out.
func TestLintBudget(t *testing.T) {
	doc := map[string]any{"a": []any{"x", "y"}, "b": "z"} // five nodes
	whole := doc
	for room := range 8 {
		budget := room
		got := FromData(doc, yamlnode.Pos{}, &budget)
		if room >= 5 {
			require.Equal(t, any(whole), Data(got))
			require.Equal(t, room-5, budget)
			continue
		}
		require.NotEqual(t, any(whole), Data(got), room)
	}
	const most = 200 // lists and mappings in each other: yamlnode's
	for _, deep := range []int{most - 1, most + 2} {
		text := strings.Repeat("[", deep) + "1" + strings.Repeat("]", deep)
		docs, bad := Docs([]byte("a: " + text))
		require.Equal(t, deep < most, len(docs) == 1 && len(bad) == 0, "%d deep", deep)
	}
}

// Where documents begin, and what is in them.
func TestLintSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "1:",
		"a":                         "1:a",
		"a\n":                       "1:a\n",
		"a\n---\nb\n":               "1:a\n|3:b\n",
		"---\na\n---\n":             "1:|2:a\n|4:",
		"a\n---":                    "1:a\n|3:",
		"a\n--- b\nc\n":             "1:a\n|2: b\nc\n",
		"a\n--- # words\nb":         "1:a\n|3:b",
		"a\n---\t\nb":               "1:a\n|3:b",
		"a\n---b\nc":                "1:a\n---b\nc",
		"a\n ---\nb":                "1:a\n ---\nb",
		"a\r\n---\r\nb\r\n":         "1:a\r\n|3:b\r\n",
		"a\n\n\n---\n---\nb\n--- c": "1:a\n\n\n|5:|6:b\n|7: c",
	} {
		var got []string
		for _, p := range split([]byte(text)) {
			got = append(got, fmt.Sprintf("%d:%s", p.line, p.text))
		}
		assert.Equal(t, want, strings.Join(got, "|"), "%q", text)
	}
	for text, want := range map[string]bool{"": true, "\n \n": true, "# a\n  # b": true, "%YAML 1.1\n...\n": true, "a": false, "# a\nb": false, "....": false, "-": false} {
		assert.Equal(t, want, isBlank([]byte(text)), "%q", text)
	}
}

// Text without quotes that Fleet reads as another text.
func TestLintLossy(t *testing.T) {
	for text, want := range map[string]string{"1.10": "1.1", "010": "8", "yes": "true", "1e3": "1000", "plain": "plain", "5": "5", "1.5": "1.5", "true": "true"} {
		assert.Equal(t, want, LossyAs(text), text)
		assert.Equal(t, want != text, lossy(text), text)
	}
	assert.False(t, lossy("[1, 2"), "it is not YAML")
	assert.False(t, lossy("[1, 2]"), "it is not text")
}

// No input makes the linter panic or hang, and what Fleet's parser takes is not
// called wrong.
func FuzzLintDocs(f *testing.F) {
	for _, s := range []string{"a: 1\n---\nb: 2\n", "a: &x [*x]\n", "{a: b", "a: !!str 1", "<<: {a: 1}\n", "? a\n: b\n", "a:\n\t- b", "- - - a\n", "\ufeffa: b\r\n", "%YAML 1.1\n---\na: yes\n", "a: |\n  b\n --- \n", "---\n---\n...\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, bad := Docs([]byte(text))
		if len(bad) == 0 || slices.ContainsFunc(bad, func(s Syntax) bool { return s.Unread }) {
			return
		}
		for _, part := range split([]byte(text)) {
			var v any
			if yaml.Unmarshal(part.text, &v) != nil {
				return // one of them is wrong for Fleet too
			}
		}
		t.Fatalf("Fleet takes it, and we say %v", bad)
	})
}
