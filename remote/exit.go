package remote

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ExitError says that a command ran and did not end with status 0.
type ExitError struct {
	Args   []string // the command, as the transport ran it
	Code   int      // the exit status; 128 + n after signal n, -1 if it is not known
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
	if said := FailureText(e.Stderr); said != "" {
		text += ": " + said
	}
	return text
}

// How many lines Telling returns: with lines that name an error, and without.
const (
	failureErrors = 5
	failureLines  = 3
)

// naming matches the start of lines that name an error: apt (E:, and W: for what it could not
// fetch), dpkg, modprobe and insmod, curl, cloud-init, shells.
var naming = regexp.MustCompile(`^(E: |W: Failed |Err:|[A-Za-z0-9_./-]+: (\([0-9]+\) |.*\b(error|ERROR|FATAL|WARNING|fatal|cannot|not found)\b)|(error|ERROR|FATAL|fatal)\b)`)

// FailureText returns, as one line, the part of a program's output that says why it failed: the
// last lines that name an error, and the last line. If no line names an error, it returns the
// last three. Repeated lines appear once.
func FailureText(output string) string {
	var all, errs []string
	for line := range strings.SplitSeq(output, "\n") {
		line = strings.Map(printable, strings.TrimSpace(line))
		if line == "" {
			continue
		}
		all = append(all, line)
		if naming.MatchString(line) && !slices.Contains(errs, line) {
			errs = append(errs, line)
		}
	}
	if len(errs) == 0 {
		return strings.Join(all[max(0, len(all)-failureLines):], " | ")
	}
	errs = errs[max(0, len(errs)-failureErrors):]
	if last := all[len(all)-1]; !slices.Contains(errs, last) {
		errs = append(errs, last)
	}
	return strings.Join(errs, " | ")
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

// String returns the command for a person to read: arguments that are long or have several
// lines, such as scripts, are shortened. It is not for a shell.
func (c Cmd) String() string {
	words := make([]string, len(c.Args))
	for i, arg := range c.Args {
		words[i] = quotedArg(arg)
	}
	return strings.Join(words, " ")
}

func quotedArg(arg string) string {
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

// String returns the kept bytes.
func (t *Tail) String() string { return string(t.kept) }
