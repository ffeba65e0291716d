package printable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     "plain",
		"Größe 80 °C, 日本, a\u00a0b": "Größe 80 °C, 日本, a\u00a0b",
		"a\x1b[31mred":              `a\x1b[31mred`,
		"a\nerror: forged":          `a\nerror: forged`,
		"\r\t\x00\x7f":              `\r\t\x00\x7f`,
		"a\u202eb\u2028c":           `a\u202eb\u2028c`,
		"a\xffb":                    `a\xffb`,
		`a\n "b" 'c'`:               `a\n "b" 'c'`,
	} {
		require.Equal(t, want, Text(in))
		_, has := Hidden(in)
		require.Equal(t, utf8.ValidString(in) && want != in, has, "%q", in)
	}
}

// Whatever comes in, one line goes out, without anything that a terminal obeys.
func FuzzText(f *testing.F) {
	f.Add("a\x1b]0;title\x07\u009b31m\u2066")
	f.Fuzz(func(t *testing.T, s string) {
		out := Text(s)
		require.True(t, utf8.ValidString(out))
		require.Equal(t, -1, strings.IndexFunc(out, hidden))
		require.Equal(t, out, Text(out))
	})
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a/b:1": "a/b:1", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb": `'a\nb'`} {
		require.Equal(t, want, Word(in))
	}
	require.Equal(t, "a", FirstLine("a\nb\nc"))
	require.Equal(t, "0 steps, 1 step, 2 steps", Count(0, "step")+", "+Count(1, "step")+", "+Count(2, "step"))
	whole := strings.Repeat("é", 600)
	require.Equal(t, whole, Shorten(whole))
	require.Equal(t, whole[:600]+" … "+whole[:400], Shorten(whole+"é"))
}
