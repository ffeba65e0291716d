package pages

import (
	"os"
	"testing"

	"path/filepath"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	blocks := parse("docs/x.md", "# X\n\n<!-- output: a b -->\n\n```text\none\n  two\n```\n\n    three\n\n      four\nno\n\n<!-- made -->\n\n```\nfive\n```\n<!-- end of made -->\n")
	assert.Equal(t, []Block{
		{Page: "docs/x.md", Line: 6, Kind: "text", Output: "a b", Text: "one\n  two\n"},
		{Page: "docs/x.md", Line: 10, Kind: "indented", Text: "three\n\n  four\n"},
		{Page: "docs/x.md", Line: 18, Text: "five\n", Made: true},
	}, blocks)
}

func TestShows(t *testing.T) {
	const said = "the lab\n12:00:01  a/x  done in 3.5s\n12:00:01  b/y  done in 4s\nNAME  AGE\nab    12s\ncd    1m3s\n3 of 3 passed\n"
	for text, want := range map[string]bool{
		"ab  5s\n":                            true,
		"ab  700ms\n":                         true,
		"ab  5s\n3 of 3 passed\n":             false,
		"NAME  AGE\n…\n3 of 3 passed\n":       true,
		"3 of 3 passed\n…\nNAME  AGE\n":       false,
		"3 of 4 passed\n":                     false,
		"3 of … passed\n":                     true,
		"of 3 passed\n":                       false,
		"3 of 3\n":                            false,
		"08:15:00  b/y    done in 2.0s\n":     true,
		"08:15:00  b/y  done\n":               false,
		"NAME           AGE\nab         1s\n": true,
	} {
		assert.Equal(t, want, Block{Text: text}.Shows(said), text)
	}
	assert.True(t, Block{Text: "01:00:00  b  done\n01:00:02  a  done\n"}.Shows("02:00:00  a  done\n02:00:00  b  done\n"), "steps go on at the same time")
}

func TestWrite(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "x.md")
	const page = "# X\n\n    old\n\nend\n"
	require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	require.NoError(t, parse("x.md", page)[0].write(root, "a\n\nb\n"))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "# X\n\n    a\n\n    b\n\nend\n", string(got))
}
