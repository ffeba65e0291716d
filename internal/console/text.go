package console

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/printable"
)

// escapes matches control sequences of terminals: CSI and OSC (ECMA-48, 5.4 and 8.3.89).
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)?|\x1b.?")

// oneLine folds a text into one line, without control characters. A semicolon replaces a line
// break after a sentence, such as before a cure.
func oneLine(s string) string {
	var b strings.Builder
	for line := range strings.Lines(escapes.ReplaceAllString(s, "")) {
		words := strings.Join(strings.Fields(line), " ")
		if words == "" {
			continue
		}
		if b.Len() > 0 {
			if last := b.String()[b.Len()-1]; !strings.ContainsRune(":;,.!?", rune(last)) {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
		b.WriteString(words)
	}
	return visible(b.String())
}

// harmless is oneLine for a line that keeps its margin and its blanks.
func harmless(line string) string {
	line = strings.TrimSuffix(escapes.ReplaceAllString(line, ""), "\r")
	return visible(strings.ReplaceAll(line, "\t", "    "))
}

// harmlessLines is harmless for each line of a text.
func harmlessLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = harmless(lines[i])
	}
	return strings.Join(lines, "\n")
}

// visible removes control characters, and escapes characters that change the writing direction
// or are invisible, as Go does.
func visible(s string) string {
	return printable.Text(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s))
}

// duration formats a duration: 0.3s, 12s, 3m05s, 1h02m.
func duration(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return "<0.1s"
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return clock(d.Round(time.Second))
	}
}

// clock is short in whole seconds, for running counters.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
}

// truncate shortens a line to width columns.
func truncate(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return runewidth.Truncate(s, width, "…")
}

// pad fills a line up to width columns, or shortens it.
func pad(s string, width int) string { return runewidth.FillRight(truncate(s, width), width) }

// noBreak joins words that wrap must not separate.
func noBreak(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

// wrap breaks a line at spaces so that no line is wider than width, the first one beginning at
// column at. A wider word stays whole, because it is a URL or a path to copy. A width of 0
// does not wrap.
func wrap(s string, at, width int) []string {
	var lines []string
	var line strings.Builder
	column := at
	for i, word := range strings.Split(s, " ") {
		w := runewidth.StringWidth(word)
		if width > 0 && column+1+w > width && column > at {
			lines = append(lines, line.String())
			line.Reset()
			column = at
		} else if i > 0 {
			line.WriteByte(' ')
			column++
		}
		line.WriteString(word)
		column += w
	}
	lines = append(lines, line.String())
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "\u00a0", " ")
	}
	return lines
}

// difference formats one field of a diff, as in "memory: 128GiB → 96GiB, needs a restart".
func difference(f converge.Field) string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	switch {
	case f.Effect == converge.Remove && f.Want == "":
		b.WriteString(f.Have)
	case f.Have == "":
		b.WriteString(f.Want)
	case f.Want == "":
		b.WriteString(f.Have + " → (none)")
	default:
		b.WriteString(f.Have + " → " + f.Want)
	}
	if f.Effect == converge.Restart || f.Effect == converge.Replace {
		b.WriteString(", " + noBreak(f.Effect.String()))
	}
	if f.Note != "" {
		b.WriteString(" (" + f.Note + ")")
	}
	return b.String()
}

// differences formats a diff in one line.
func differences(d converge.Diff) string {
	s := make([]string, len(d))
	for i, f := range d {
		s[i] = difference(f)
	}
	return strings.Join(s, "; ")
}

// describeAwaited formats what a diff waits for, as in "a login over SSH (connection refused)".
func describeAwaited(d converge.Diff) string {
	s := make([]string, len(d))
	for i, f := range d {
		if s[i] = difference(converge.Field{Path: f.Path, Have: f.Have, Want: f.Want, Note: f.Note, Effect: converge.Update}); f.Path == "" && f.Have != "" && f.Want != "" {
			s[i] = f.Want + " (" + f.Have + ")"
		}
	}
	return strings.Join(s, "; ")
}

// Age formats how old something is: 40s, 12m, 3h, 12d.
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, d)/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}
