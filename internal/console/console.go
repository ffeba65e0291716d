package console

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// Console is where a command talks to: Talk to the person, Data to what follows
// in a pipe.
type Console struct {
	Talk, Data io.Writer
	JSON       bool // data as JSON lines, events too
	Live       bool // Talk is a terminal that understands cursor movements
	Redact     *secret.Redactor
}

// New makes a Console of standard error and standard output.
func New(asJSON bool) *Console {
	live := term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
	r := &secret.Redactor{}
	return &Console{
		Talk: redacting{os.Stderr, r}, Data: redacting{os.Stdout, r},
		JSON: asJSON, Live: live && !asJSON, Redact: r,
	}
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

// Display shows a run. Listen is called for each event, Close once at its end.
type Display interface {
	Listen(converge.Event)
	Close()
}

// Display returns the one that fits.
func (c *Console) Display() Display {
	switch {
	case c.JSON:
		return &jsonLines{to: c.Data, redact: c.Redact}
	case c.Live:
		return newLive(c.Talk)
	default:
		return &plain{to: c.Talk}
	}
}

// subject is the part of a step's name after the slash: the node, mostly.
func subject(step string) string {
	if _, after, ok := strings.Cut(step, "/"); ok {
		return after
	}
	return step
}

// short prints a duration as a person says it: 0.4s, 12s, 3m05s.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s0s")
	default:
		return d.Round(time.Minute).String()
	}
}

// oneLine folds a text into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
