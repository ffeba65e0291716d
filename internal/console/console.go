package console

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// Console is where a command talks to: Talk to the person, Data to what follows
// in a pipe. The zero values of all other fields are good ones.
type Console struct {
	Talk, Data io.Writer
	JSON       bool // data as JSON lines, events too
	Live       bool // Talk is a terminal that understands cursor movements
	Redact     *secret.Redactor

	talk, data face
}

// face is what is known of the other end of a stream.
type face struct {
	paint paint
	size  func() (width, height int) // nil when it is no terminal
}

// New makes a Console of standard error and standard output.
func New(asJSON bool) *Console {
	r := &secret.Redactor{}
	talk, data := faceOf(os.Stderr), faceOf(os.Stdout)
	return &Console{
		Talk: redacting{os.Stderr, r}, Data: redacting{os.Stdout, r},
		JSON: asJSON, Live: talk.size != nil && os.Getenv("CI") == "" && !asJSON,
		Redact: r, talk: talk, data: data,
	}
}

// faceOf looks whether a file is a terminal that understands more than letters.
// NO_COLOR is obeyed as https://no-color.org asks.
func faceOf(f *os.File) face {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return face{}
	}
	return face{
		paint: os.Getenv("NO_COLOR") == "",
		size: func() (width, height int) {
			width, height, err := term.GetSize(fd)
			if err != nil || width <= 0 || height <= 0 {
				return 80, 24
			}
			return width, height
		},
	}
}

// width is how many columns there are, 0 for as many as one likes.
func (f face) width() int {
	if f.size == nil {
		return 0
	}
	w, _ := f.size()
	return w
}

// redacting passes whole writes through a redactor. Everything here writes lines
// in one call, so no secret is cut in two.
type redacting struct {
	to     io.Writer
	redact *secret.Redactor
}

func (w redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.redact.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hide takes the secrets out of a text.
func (c *Console) hide(s string) string {
	if c.Redact == nil {
		return s
	}
	return c.Redact.Redact(s)
}

// line makes one harmless line of a foreign text.
func (c *Console) line(s string) string { return oneLine(c.hide(s)) }

// Display shows a run. Listen is called for each event, Again where the run begins again
// before it has changed anything, Close once at its end.
type Display interface {
	Listen(converge.Event)
	Again()
	Close()
}

// Display returns the one that fits. The names of all steps of the run, in their
// order, let it keep that order and know when a node is done.
func (c *Console) Display(steps []string) Display {
	switch {
	case c.JSON:
		return &jsonLines{console: c}
	case c.Live && c.talk.size != nil:
		return newLive(c, steps)
	default:
		return newPlain(c)
	}
}

// paint colours, or does not.
type paint bool

func (p paint) sgr(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.sgr("1", s) }
func (p paint) faint(s string) string  { return p.sgr("2", s) }
func (p paint) red(s string) string    { return p.sgr("31", s) }
func (p paint) green(s string) string  { return p.sgr("32", s) }
func (p paint) yellow(s string) string { return p.sgr("33", s) }
func (p paint) cyan(s string) string   { return p.sgr("36", s) }
