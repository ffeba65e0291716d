// Package printable makes foreign text safe for one line of a terminal.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with control characters and invisible characters escaped as in Go: \x1b, \n,
// \u202e. Other text stays unchanged.
func Text(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0]), 16))
		case hidden(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// Hidden returns the first character that [Text] would escape, and whether there is one.
func Hidden(s string) (rune, bool) {
	for _, r := range s {
		if hidden(r) {
			return r, true
		}
	}
	return 0, false
}

// hidden are control characters, those that change the writing direction, other invisible
// ones, and line separators. Blanks of other widths are visible.
func hidden(r rune) bool { return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) }

// FirstLine returns s up to its first line break.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Word returns s as one word of a command that is printed: a person copies it into a shell, or
// pipes it there. What a shell would take for more is in single quotes.
func Word(s any) string {
	word := Text(fmt.Sprint(s))
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plain are characters that mean nothing to a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_…"

// Shorten leaves out the middle of a text that fills more than a few lines: its end says what is
// wrong with what it begins with.
func Shorten(s string) string {
	const most, begin, end = 600, 300, 200
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:begin]) + " … " + string(runes[len(runes)-end:])
}

// Count formats a number, as in "1 step" and "2 steps".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
