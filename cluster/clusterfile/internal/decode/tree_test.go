package decode

import (
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
		c := NewChecker("")
		root := ReadTree(c, []byte(text))
		if want == "" {
			require.Empty(t, c.Problems, "%q", text)
			require.NotNil(t, root.Get("a"), "%q", text)
			continue
		}
		require.NotEmpty(t, c.Problems, "%q", text)
		assert.Contains(t, c.Problems.Error(), want, "%q", text)
	}
}
