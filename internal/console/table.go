package console

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Table is data in rows of equal length.
type Table struct {
	Header []string
	Rows   [][]string
	Most   int // columns, also in a file or on a wider terminal; 0: no limit
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// gap is the space between columns.
const gap = 2

// Table prints t with aligned columns. A column without a value is left out. On a narrow
// terminal, long values are shortened; those of the last column, which has the results,
// continue below.
func (c *Console) Table(t Table) {
	all := [][]string{t.Header}
	for _, row := range t.Rows {
		clean := make([]string, len(t.Header))
		for i := range min(len(row), len(clean)) {
			clean[i] = c.line(row[i])
		}
		all = append(all, clean)
	}
	width := columns(all)
	last := len(width) - 1
	for last > 0 && width[last] == 0 {
		last--
	}
	limit := c.data.width()
	if t.Most > 0 && (limit == 0 || limit > t.Most) {
		limit = t.Most
	}
	narrow(width[:last+1], limit)
	for n, row := range all {
		var head strings.Builder
		for i, cell := range row[:last] {
			if width[i] > 0 {
				head.WriteString(pad(cell, width[i]) + strings.Repeat(" ", gap))
			}
		}
		at := runewidth.StringWidth(head.String())
		for i, end := range wrap(row[last], at, limit) {
			line := strings.Repeat(" ", at) + end
			if i == 0 {
				line = head.String() + end
			}
			if line = strings.TrimRight(line, " "); n == 0 {
				line = c.data.paint.faint(line)
			}
			_, _ = io.WriteString(c.Data, line+"\n")
		}
	}
}

// columns measures the columns; one without values has width 0.
func columns(all [][]string) []int {
	width := make([]int, len(all[0]))
	for _, row := range all[1:] {
		for i, cell := range row {
			width[i] = max(width[i], runewidth.StringWidth(cell))
		}
	}
	for i, cell := range all[0] {
		if width[i] > 0 || len(all) == 1 {
			width[i] = max(width[i], runewidth.StringWidth(cell))
		}
	}
	return width
}

// narrow narrows the widest columns, except the last, until all fit into limit (0: no limit),
// with some room for the last.
func narrow(width []int, limit int) {
	const least, room = 12, 24
	last := len(width) - 1
	for limit > 0 {
		sum, widest := min(width[last], room), -1
		for i, w := range width[:last] {
			if w > 0 {
				sum += w + gap
			}
			if w > least && (widest < 0 || w > width[widest]) {
				widest = i
			}
		}
		if widest < 0 || sum <= limit {
			return
		}
		width[widest]--
	}
}

// Printf prints one or a few lines for the person. On a terminal it wraps between words.
func (c *Console) Printf(format string, args ...any) {
	var out []string
	for line := range strings.SplitSeq(c.hide(fmt.Sprintf(format, args...)), "\n") {
		out = append(out, wrap(harmless(line), 0, c.talk.width())...)
	}
	_, _ = fmt.Fprintln(c.Talk, strings.Join(out, "\n"))
}

// Fail prints the error with which a command ends. On a terminal it wraps between words, but for
// lines that have a command to paste.
func (c *Console) Fail(text string) {
	var out []string
	for line := range strings.SplitSeq(harmlessLines(c.hide(text)), "\n") {
		width := c.talk.width()
		if strings.HasPrefix(line, " ") || slices.ContainsFunc([]string{"`", "go tool ", "homelab ", "kubectl ", "ssh", "sudo "}, func(s string) bool { return strings.Contains(line, s) }) {
			width = 0
		}
		out = append(out, wrap(line, 0, width)...)
	}
	_, _ = io.WriteString(c.Talk, strings.Join(out, "\n")+"\n")
}

// Prompt prints a question, and leaves the cursor after it. What was typed on the terminal before
// does not answer it: it is thrown away.
func (c *Console) Prompt(question string) {
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		dropTyped(in)
	}
	_, _ = io.WriteString(c.Talk, harmlessLines(c.hide(question)))
}

// Text prints a text of several lines as data.
func (c *Console) Text(text string) error {
	_, err := io.WriteString(c.Data, harmlessLines(c.hide(text)))
	return err
}

// Progress shows the progress of a long task: in place on a terminal, as lines elsewhere. An
// empty text removes the line.
func (c *Console) Progress(text string) {
	text = c.line(text)
	switch {
	case c.Live:
		w, start := c.talk.width(), "\r\x1b[K"
		if w > 0 {
			text = truncate(text, w-1)
		}
		if up := c.linesAdded(c.progress, w); up > 0 {
			start = fmt.Sprintf("\r\x1b[%dA\x1b[J", up)
		}
		c.progress = runewidth.StringWidth(text)
		_, _ = fmt.Fprint(c.Talk, start+c.talk.paint.cyan(text))
	case text != "" && !c.JSON:
		_, _ = fmt.Fprintln(c.Talk, text)
	}
}
