package console

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// screen keeps some rows at the lower end of a terminal up to date, below all that
// was printed before. Between two drawings the cursor is below the rows and
// visible, so that a program which is killed leaves a usable terminal.
//
// The sequences are those of ECMA-48 that every terminal knows: CUU (A), EL (K), ED
// (J); and DEC's ?25 for the cursor. A drawing is one write that overwrites in
// place: nothing flickers.
type screen struct {
	to   io.Writer
	size func() (width, height int)
	rows []int // widths of the rows drawn last
	// linesAdded is how many lines others have printed below since the last call; nil: none.
	linesAdded func(column, width int) int
	drawn      string
}

// draw prints lines above the rows, and draws the rows again. There must be fewer rows than
// the screen has.
func (s *screen) draw(above []string, rows []row) {
	width, _ := s.size()
	var body strings.Builder
	for _, line := range above {
		body.WriteString(line + "\x1b[K\n")
	}
	for _, r := range rows {
		body.WriteString(r.text + "\x1b[K\n")
	}
	up := s.linesTaken(width)
	if s.linesAdded != nil {
		up += s.linesAdded(0, width)
	}
	if body.String() == s.drawn && len(above) == 0 && up == len(rows) {
		return
	}
	s.drawn = body.String()
	s.rows = s.rows[:0]
	for _, r := range rows {
		s.rows = append(s.rows, r.width)
	}
	start := "\r"
	if up > 0 {
		start = fmt.Sprintf("\r\x1b[%dA", up)
	}
	_, _ = io.WriteString(s.to, "\x1b[?25l"+start+body.String()+"\x1b[J\x1b[?25h")
}

// linesTaken is how many screen lines the last rows take. A terminal that has become narrower has
// wrapped rows that no longer fit.
func (s *screen) linesTaken(width int) int {
	lines := 0
	for _, w := range s.rows {
		lines += max(1, (w+width-1)/width)
	}
	return lines
}

// row is a line with its width, not counting colours.
type row struct {
	text  string
	width int
}

// span is a piece of a row in one colour.
type span struct {
	text  string
	paint func(string) string
}

// newRow makes a row of at most width columns. It leaves the last column free: terminals
// differ in where the cursor is after a full row.
func newRow(width int, spans ...span) row {
	var r row
	for _, s := range spans {
		text := truncate(s.text, width-1-r.width)
		r.width += runewidth.StringWidth(text)
		if s.paint != nil {
			text = s.paint(text)
		}
		r.text += text
	}
	return r
}

// crowd chooses the rows to show when there is not room for all: active ones first, in their
// order. It returns how many were omitted.
func crowd[T any](all []T, room int, busy func(T) bool) (shown []T, more int) {
	if len(all) <= room {
		return all, 0
	}
	room = max(1, room-1) // the line with the number of omitted rows
	take := make([]bool, len(all))
	for _, wanted := range []bool{true, false} {
		for i, x := range all {
			if busy(x) == wanted && room > 0 {
				take[i] = true
				room--
			}
		}
	}
	i := 0
	shown = slices.DeleteFunc(slices.Clone(all), func(T) bool { i++; return !take[i-1] })
	return shown, len(all) - len(shown)
}
