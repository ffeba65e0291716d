package console

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/secret"
)

// onTerminal is a console on a terminal, and what presses Ctrl-C there: Mage adds its line.
func onTerminal(width int) (c *Console, term *terminal, press func()) {
	term, pressed := newTerminal(width, 12), false
	c = &Console{Talk: term, Live: true, Redact: &secret.Redactor{}, talk: face{size: func() (int, int) { return width, 12 }}}
	c.interrupted = func() (was bool) { was, pressed = pressed, false; return was }
	return c, term, func() {
		pressed = true
		text := interruptedBy
		for room := width - term.x; len(text) > room; room = width { // as a terminal does at its edge
			_, _ = io.WriteString(term, text[:room-1]+"\n")
			text = text[room-1:]
		}
		_, _ = io.WriteString(term, text+"\n")
	}
}

// Ctrl-C leaves no row of the display behind.
func TestInterruptLeavesNoRow(t *testing.T) {
	for _, width := range []int{80, 100} {
		c, term, press := onTerminal(width)
		_, _ = io.WriteString(term, "before\n")
		s := &screen{to: term, size: c.talk.size, linesAdded: c.linesAdded}
		s.draw(nil, []row{{"row 1", 5}, {"row 2", 5}})
		press()
		s.draw([]string{"above"}, []row{{"row 1", 5}})
		s.draw(nil, nil)
		assert.Equal(t, "before\nabove\n", strings.TrimRight(term.screen(), "\n")+"\n")
		assert.Empty(t, term.faults)

		c, term, press = onTerminal(width)
		c.Progress("building")
		press()
		c.Progress("still building")
		c.Progress("")
		assert.Empty(t, strings.TrimSpace(term.screen()))
	}
}

// The last words of a run that failed are not broken inside, and commands stay whole.
func TestFailWrapsBetweenWords(t *testing.T) {
	c, term, _ := onTerminal(80)
	const words = "vm/wk-gpu1, vm/wk-gpu2, vm/wk-gpu3 failed, 31 of 59 steps could not start; what is done stays done: fix it and run it again"
	c.Fail(words)
	for _, word := range strings.Fields(words) {
		assert.Contains(t, term.screen(), word)
	}
	var out strings.Builder
	c.Talk = &out
	command := "go tool mage cluster:up -destroy=" + strings.Repeat("wk-gpu1,", 12) + " -restart"
	c.Fail(command)
	assert.Equal(t, command+"\n", out.String())
}
