package cluster

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is before the document, and what is after it.
func TestTreesOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		"a: b":                          "",
		"\ufeffa: b":                    "",
		"# words\n---\na: b":            "",
		"%YAML 1.1\n---\na: b":          "",
		"%YAML 1.1\n# words\n---\na: b": "",
		"a: b\n---\nc: d":               "a second document begins here",
		"":                              "the file is empty",
		"# words":                       "the file is empty",
		"[a]":                           "the file is a list",
		"a: *b":                         "the alias *b has no anchor &b above it",
	} {
		c := newChecker("")
		root := readTree(c, []byte(text))
		if want == "" {
			require.Empty(t, c.problems, "%q", text)
			require.NotNil(t, root.get("a"), "%q", text)
			continue
		}
		require.NotEmpty(t, c.problems, "%q", text)
		assert.Contains(t, c.problems.Error(), want, "%q", text)
	}
}

// An alias counts as much as what it stands for, so that a short file cannot unfold to a
// long one.
func TestWeightsOfTrees(t *testing.T) {
	for text, want := range map[string]int{
		"a: b":                               2,
		"a: [b, c, {d: e}]":                  6,
		"a: &x [b, c]\nd: *x":                7,
		"a: &x {b: c, d: [e, f]}\ng: *x":     11,
		"a: &x {b: c, d: e}\ng: {<<: *x}":    10,
		"a: &x {b: c}\ng: {<<: *x, b: d}":    7,
		"a: &x {b: [c, d]}\ng: {<<: [*x]}":   14,
		"a: !!str b":                         2,
		"a: &x {b: c}\nd: [*x, *x]\ne: null": 9,
	} {
		c := newChecker("")
		root := readTree(c, []byte(text))
		require.Empty(t, c.problems, text)
		assert.Equal(t, want, root.weight, "%q", text)
	}
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 {x: 1}\n")
	for i := range 20 {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		bomb.WriteString(to + "0: &" + to + "0 {p: {<<: *" + from + "0}, q: {<<: *" + from + "0}}\n")
	}
	c := newChecker("")
	require.Nil(t, readTree(c, []byte(bomb.String())))
	require.Equal(t, 1, strings.Count(c.problems.Error(), "unfolds to more than a cluster can need"), "said once")
}
