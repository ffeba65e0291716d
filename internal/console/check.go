package console

import (
	"fmt"
	"io"
	"strings"
)

// Finding is the result of a check, for display.
type Finding struct {
	Grave    bool   // an error; otherwise a warning
	ID       string // to look up in the docs
	Subject  string // what it is about
	Evidence string // what was seen
	Cure     string // what to do
	Command  string // commands to paste, one a line; they are never wrapped
}

// Findings prints what checks found: mark, id and subject, and below them what was
// seen and what to do.
func (c *Console) Findings(all []Finding) {
	const margin = "    "
	for _, f := range all {
		mark := c.data.paint.yellow("!")
		if f.Grave {
			mark = c.data.paint.red("✗")
		}
		c.row(mark + " " + c.data.paint.bold(f.ID) + strings.TrimRight("  "+c.line(f.Subject), " "))
		c.printIndented(margin, f.Evidence)
		if f.Cure != "" {
			c.printIndented(margin, "→ "+f.Cure)
		}
		for command := range strings.FieldsFuncSeq(f.Command, func(r rune) bool { return r == '\n' }) {
			c.row(margin + "  " + c.data.paint.cyan(c.line(command)))
		}
	}
}

// PrintUnchecked prints the checks that could not run, grouped by reason.
func (c *Console) PrintUnchecked(all []Finding) {
	var reasons []group[string]
	for _, f := range all {
		name := f.ID
		reasons = append(reasons, group[string]{[]string{name}, f.Evidence})
	}
	for _, r := range fold(reasons, func(s string) string { return s }) {
		lines := wrap(fmt.Sprintf("not checked: %s: %s", shortList(unique(r.names)), c.line(r.what)), 2, c.data.width())
		for i, line := range lines {
			mark := "– "
			if i > 0 {
				mark = "  "
			}
			c.row(c.data.paint.faint(mark + line))
		}
	}
}

// unique drops duplicate names.
func unique(names []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, n := range names {
		if !seen[n] {
			out = append(out, n)
		}
		seen[n] = true
	}
	return out
}

// Summary prints the last line of the data.
func (c *Console) Summary(format string, args ...any) {
	for _, line := range wrap(c.line(fmt.Sprintf(format, args...)), 0, c.data.width()) {
		c.row(line)
	}
}

// printIndented prints a text, line by line, after a margin.
func (c *Console) printIndented(margin, text string) {
	for part := range strings.SplitSeq(text, "\n") {
		for _, line := range wrap(c.line(part), len(margin), c.data.width()) {
			c.row(margin + line)
		}
	}
}

func (c *Console) row(line string) { _, _ = io.WriteString(c.Data, line+"\n") }
