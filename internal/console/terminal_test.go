package console

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// terminal is as much of a terminal as the live display needs. It is strict: what it
// does not know, and a line that runs over the edge, are faults.
type terminal struct {
	mu            sync.Mutex
	width, height int
	cells         [][]string // a cell of "" is the right half of a wide character
	gone          []string   // lines that scrolled off the top
	x, y          int
	hidden        bool // the cursor
	faults        []string
	writes        int
}

func newTerminal(width, height int) *terminal {
	t := &terminal{width: width, height: height}
	for range height {
		t.cells = append(t.cells, t.empty())
	}
	return t
}

func (t *terminal) empty() []string { return strings.Split(strings.Repeat(" ", t.width), "") }

func (t *terminal) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Write obeys, and checks how a write leaves the terminal.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	for s := string(p); s != ""; {
		switch c := s[0]; {
		case c == '\x1b':
			s = t.escape(s)
		case c == '\r':
			t.x, s = 0, s[1:]
		case c == '\n': // the line discipline adds the return
			t.newline()
			s = s[1:]
		case c < ' ':
			t.fault("control character %q", c)
			s = s[1:]
		default:
			r, size := utf8.DecodeRuneInString(s)
			t.put(s[:size], runewidth.RuneWidth(r))
			s = s[size:]
		}
	}
	if t.hidden {
		t.fault("write %d leaves the cursor hidden", t.writes)
	}
	return len(p), nil
}

func (t *terminal) newline() {
	t.x = 0
	if t.y++; t.y < t.height {
		return
	}
	t.gone = append(t.gone, t.text(0))
	t.cells, t.y = append(t.cells[1:], t.empty()), t.height-1
}

func (t *terminal) put(s string, width int) {
	if t.x+width > t.width {
		t.fault("line %q runs over the edge with %q", t.text(t.y), s)
		t.newline()
	}
	if width > 0 {
		t.cells[t.y][t.x] = s
		for i := 1; i < width; i++ {
			t.cells[t.y][t.x+i] = ""
		}
	}
	t.x += width
}

// escape obeys one CSI sequence and returns what follows.
func (t *terminal) escape(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return r >= '@' && r != '[' })
	if end < 0 || !strings.HasPrefix(s, "\x1b[") {
		t.fault("odd sequence %q", s)
		return ""
	}
	arg := s[2:end]
	switch s[end] {
	case 'm':
	case 'A':
		n, _ := strconv.Atoi(arg)
		if n > t.y {
			t.fault("%d lines up from line %d", n, t.y)
		}
		t.y = max(0, t.y-n)
	case 'K':
		copy(t.cells[t.y][t.x:], t.empty())
	case 'J':
		copy(t.cells[t.y][t.x:], t.empty())
		for y := t.y + 1; y < t.height; y++ {
			t.cells[y] = t.empty()
		}
	case 'h', 'l':
		if arg != "?25" {
			t.fault("odd mode %q", arg)
		}
		t.hidden = s[end] == 'l'
	default:
		t.fault("odd sequence %q", s[:end+1])
	}
	return s[end+1:]
}

func (t *terminal) text(y int) string {
	return strings.TrimRight(strings.Join(t.cells[y], ""), " ")
}

// screen is what one sees.
func (t *terminal) screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for y := range t.cells {
		b.WriteString(t.text(y) + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// all is what one sees after scrolling up.
func (t *terminal) all() string {
	return strings.Join(append(t.gone, ""), "\n") + t.screen()
}
