package remote

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ExitError is a command that ran and did not end with status 0.
type ExitError struct {
	Args   []string // the command, as the transport ran it
	Code   int      // the exit status; 128 + n after signal n, -1 where it is not known
	Signal string   // the signal that ended the command, without SIG; empty for an exit
	Stderr string   // the end of what it wrote to standard error, at most [TailSize] bytes
}

// Error returns e.g. "exit status 1: cat -- /x: cat: /x: No such file or directory".
func (e *ExitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		how = "ended by signal " + e.Signal
	}
	text := how + ": " + Cmd{Args: e.Args}.String()
	if said := lastLines(e.Stderr, 3); said != "" {
		text += ": " + said
	}
	return text
}

// lastLines returns the last n lines of s that are not blank, as one line.
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.Map(printable, line))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// printable drops what could move a terminal's cursor.
func printable(r rune) rune {
	if r == '\t' {
		return ' '
	}
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}

// maxShown is how much of one argument a message shows, in characters.
const maxShown = 60

// String returns the command for a person to read: arguments that are long or
// have several lines, such as scripts, are cut short. It is not for a shell.
func (c Cmd) String() string {
	words := make([]string, len(c.Args))
	for i, arg := range c.Args {
		words[i] = shown(arg)
	}
	return strings.Join(words, " ")
}

func shown(arg string) string {
	first, _, cut := strings.Cut(arg, "\n")
	if runes := []rune(first); len(runes) > maxShown {
		first, cut = string(runes[:maxShown]), true
	}
	if cut {
		first = strings.TrimSpace(first) + "…"
	}
	if first == "" || strings.ContainsAny(first, " \t'\"\\") || !utf8.ValidString(first) {
		return fmt.Sprintf("%q", first)
	}
	return strings.Map(printable, first)
}

// TailSize is how much of a command's standard error an [ExitError] keeps.
const TailSize = 4 << 10

// Tail is an [io.Writer] that keeps the last [TailSize] bytes written to it: what
// a transport needs for [ExitError.Stderr]. The zero Tail is empty. It is not
// safe for concurrent use.
type Tail struct{ kept []byte }

// Write keeps the end of what was written so far and p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	if len(p) >= TailSize {
		t.kept = append(t.kept[:0], p[len(p)-TailSize:]...)
		return len(p), nil
	}
	if over := len(t.kept) + len(p) - TailSize; over > 0 {
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string { return string(t.kept) }
