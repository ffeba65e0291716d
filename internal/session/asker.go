package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/internal/console"
)

// asker asks a person questions, or uses the proposals if there is nobody to ask.
type asker struct {
	*console.Console
	person bool // there is somebody to ask
	in     *bufio.Reader
	secret func() (string, error) // reads a line without an echo
}

// newAsker returns an asker for the terminal, which does not ask if yes is set.
func newAsker(c *console.Console, yes bool) *asker {
	fd := int(os.Stdin.Fd())
	a := &asker{Console: c, person: !yes && term.IsTerminal(fd), in: bufio.NewReader(os.Stdin)}
	a.secret = func() (string, error) {
		b, err := term.ReadPassword(fd)
		return string(b), err
	}
	return a
}

// read waits for a line.
func (a *asker) read(ctx context.Context, line func() (string, error)) (string, error) {
	text, err := readLine(ctx, line)
	text = strings.TrimSpace(text)
	ended := errors.Is(err, io.EOF)
	switch {
	case ctx.Err() != nil:
		return "", exitErrorf(130, "interrupted; nothing was written")
	case ended && text == "":
		return "", exitErrorf(refused, "the answers ended; nothing was written")
	case err != nil && !ended:
		return "", err
	}
	return text, nil
}

func (a *asker) line() (string, error) { return a.in.ReadString('\n') }

// text asks for one line, unless a flag gives it. Enter accepts the proposal; it asks again if
// check rejects the answer.
func (a *asker) text(ctx context.Context, what, given, proposed string, check func(string) error) (string, error) {
	if given != "" || !a.person {
		answer := given
		if answer == "" {
			answer = proposed
		}
		if check != nil && answer != "" {
			if err := check(answer); err != nil {
				return "", exitError(invalid, fmt.Errorf("%s: %w", what, err))
			}
		}
		return answer, nil
	}
	for {
		question := what + ": "
		if proposed != "" {
			question = fmt.Sprintf("%s [%s]: ", what, proposed)
		}
		a.Prompt(question)
		answer, err := a.read(ctx, a.line)
		if err != nil {
			return "", err
		}
		if answer == "" {
			answer = proposed
		}
		switch {
		case answer == "":
		case check == nil:
			return answer, nil
		default:
			if err := check(answer); err == nil {
				return answer, nil
			} else {
				a.Printf("  %s", err)
			}
		}
	}
}

// askHidden asks for one line without an echo.
func (a *asker) askHidden(ctx context.Context, question string) (string, error) {
	for {
		a.Prompt(question)
		answer, err := a.read(ctx, a.secret)
		_, _ = io.WriteString(a.Talk, "\n")
		if err != nil || answer != "" {
			return answer, err
		}
	}
}

// confirm continues only if the user types the word.
func (a *asker) confirm(ctx context.Context, question string) error {
	a.Prompt(question)
	answer, err := a.read(ctx, a.line)
	if err != nil {
		return err
	}
	if answer != "yes" {
		return exitErrorf(refused, "nothing was written")
	}
	return nil
}

// recheck is check where there is somebody to ask again. What flags say is checked all at once,
// later.
func (a *asker) recheck(check func(string) error) func(string) error {
	if !a.person {
		return func(string) error { return nil }
	}
	return check
}

// number asks for a whole number.
func (a *asker) number(ctx context.Context, what string, given, proposed int, check func(int) error) (int, error) {
	text := ""
	if given != 0 {
		text = strconv.Itoa(given)
	}
	answer, err := a.text(ctx, what, text, strconv.Itoa(proposed), a.recheck(func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is not a number: write one like %d", s, proposed)
		}
		return check(n)
	}))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer)
}
