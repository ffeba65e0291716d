package console

import (
	"cmp"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// Console is where a command writes: Talk for the person, Data for the next program in a
// pipe. The zero values of all other fields are good defaults.
type Console struct {
	Talk, Data io.Writer
	JSON       bool // data as JSON lines, events too
	Live       bool // Talk is a terminal that understands cursor movements
	Redact     *secret.Redactor
	Recorder   Recorder // also gets what commands see and do; may be nil
	Program    string   // begins a command of homelab as one types it here; empty: go tool mage

	talk, data face
	// interrupted says once that Ctrl-C was pressed, to which Mage adds a line at the cursor; nil: never.
	interrupted func() bool
	progress    int // width of the line of progress on the terminal
}

// Recorder keeps what a command sees and does.
type Recorder interface {
	Display
	RecordPlan(*converge.Plan)
	RecordRun(*converge.Report)
}

// face is what is known about the terminal or file behind a stream.
type face struct {
	paint paint
	size  func() (width, height int) // nil for anything but a terminal
}

// New makes a Console of standard error and standard output.
func New(asJSON bool) *Console {
	r := &secret.Redactor{}
	talk, data := faceOf(os.Stderr), faceOf(os.Stdout)
	c := &Console{
		Talk: redacting{os.Stderr, r}, Data: redacting{os.Stdout, r},
		JSON: asJSON, Live: talk.size != nil && os.Getenv("CI") == "" && !asJSON,
		Redact: r, talk: talk, data: data,
	}
	if name := filepath.Base(os.Args[0]); strings.TrimSuffix(name, ".exe") == "homelab" {
		c.Program = "homelab"
	}
	if c.Live {
		pressed := make(chan os.Signal, 1)
		signal.Notify(pressed, os.Interrupt) // Mage has asked for it too: it ends nothing that would end otherwise
		c.interrupted = func() bool {
			select {
			case <-pressed:
				return true
			default:
				return false
			}
		}
	}
	return c
}

// interruptedBy is what the terminal and Mage print at Ctrl-C (mage/template.go).
const interruptedBy = "^Ccancelling mage targets, waiting up to 5 seconds for cleanup..."

// linesAdded is how many lines of a terminal Ctrl-C has added since the last call, to a line that is
// filled up to a column.
func (c *Console) linesAdded(column, width int) int {
	if c.interrupted == nil || width <= 0 || !c.interrupted() {
		return 0
	}
	return (column + len(interruptedBy) + width - 1) / width
}

// faceOf finds out whether a file is a terminal that understands escape sequences. NO_COLOR
// is obeyed as https://no-color.org says.
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

// width is the number of columns, 0 for unlimited.
func (f face) width() int {
	if f.size == nil {
		return 0
	}
	w, _ := f.size()
	return w
}

// redacting passes each write through a redactor. Every writer here writes whole lines in
// one call, so no secret is split over two writes.
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

// hide redacts the secrets in a text, and words its commands.
func (c *Console) hide(s string) string {
	if s = c.Commands(s); c.Redact == nil {
		return s
	}
	return c.Redact.Redact(s)
}

// verbs matches the commands in a text. Libraries name them as the program homelab reads them: homelab cluster:up.
var verbs = regexp.MustCompile(`\bhomelab ([a-z0-9]+:[a-z])`)

// Commands words the commands of homelab in a text as one types them here.
func (c *Console) Commands(text string) string {
	return verbs.ReplaceAllString(text, cmp.Or(c.Program, "go tool mage")+" $1")
}

// line makes foreign text safe to print on one line.
func (c *Console) line(s string) string { return oneLine(c.hide(s)) }

// Display shows a run. Listen is called for each event, Again if the run starts over before
// it has changed anything, Close once at its end.
type Display interface {
	Listen(converge.Event)
	Reset()
	Close()
}

// Display returns the display that fits the terminal. The names of all steps, in their
// order, let it keep that order and know when a node is done.
func (c *Console) Display(steps []string) Display {
	if c.Recorder != nil {
		return tee{c.display(steps), c.Recorder}
	}
	return c.display(steps)
}

func (c *Console) display(steps []string) Display {
	switch {
	case c.JSON:
		return &jsonLines{console: c}
	case c.Live && c.talk.size != nil:
		return newLive(c, steps)
	default:
		return newPlain(c)
	}
}

// tee shows a run twice.
type tee struct{ Display, also Display }

func (b tee) Listen(e converge.Event) {
	b.Display.Listen(e)
	b.also.Listen(e)
}

func (b tee) Reset() {
	b.Display.Reset()
	b.also.Reset()
}

func (b tee) Close() {
	b.Display.Close()
	b.also.Close()
}

// Plain returns a text without secrets and control characters.
func (c *Console) Plain(s string) string { return harmlessLines(c.hide(s)) }

// paint adds colours, or none.
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
