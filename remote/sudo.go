package remote

import (
	"context"
	"crypto/rand"
	_ "embed" // the script below
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

//go:embed sudo.sh
var sudoScript string

// Sudo returns a Runner that runs commands as root with sudo. If sudo would ask for a
// password, that is an [*ExitError] at once.
func Sudo(r Runner) Runner {
	return RunnerFunc(func(ctx context.Context, cmd Cmd) error {
		if len(cmd.Args) == 0 {
			return run(ctx, r, cmd) // the transport's own error, not sudo's usage
		}
		cmd.Args = append([]string{"sudo", "-n", "--"}, cmd.Args...)
		return run(ctx, r, cmd)
	})
}

// SudoPassword returns a Runner that runs commands as root with sudo, which may ask for the
// user's password. Before the first command it asks sudo whether it does, and tries the password:
// if sudo refuses it, that and every later command is a [*SudoError], and the password is not
// tried again, because some machines lock an account after a few wrong ones. The password is
// sent only on standard input, and only if sudo asks for it; a command's own input is all that
// the command can read, no matter which rules sudo has. Without a password it is [Sudo].
func SudoPassword(r Runner, password secret.Value) Runner {
	if password.IsZero() {
		return Sudo(r)
	}
	s := &sudo{Runner: r, password: password, end: rand.Text(), turn: make(chan struct{}, 1)}
	return RunnerFunc(s.run)
}

// SudoError says that sudo refused the user or the password of [SudoPassword], so no command
// ran. It does not wrap sudo's [*ExitError], which could be taken for the command's.
type SudoError struct{ Exit *ExitError }

// Error returns e.g. "sudo refuses the user or the password: Sorry, try again.".
func (e *SudoError) Error() string {
	return "sudo refuses the user or the password: " + FailureText(e.Exit.Stderr)
}

// sudo runs commands with a password.
type sudo struct {
	Runner
	password secret.Value
	end      string // the line before a command's own input; nothing else has it

	turn    chan struct{} // held while the rest is read or changed
	asked   bool
	free    bool       // sudo wants no password
	refused *SudoError // or nil
}

func (s *sudo) run(ctx context.Context, cmd Cmd) error {
	if len(cmd.Args) == 0 {
		return run(ctx, s.Runner, cmd)
	}
	free, err := s.ask(ctx)
	switch {
	case err != nil:
		return err
	case free:
		return Sudo(s.Runner).Run(ctx, cmd)
	}
	return s.runWithPassword(ctx, cmd)
}

// ask tries once what sudo wants of this user. The password goes alone at first: sudo would take a
// command's input for further tries.
func (s *sudo) ask(ctx context.Context) (free bool, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return false, fmt.Errorf("waiting for sudo: %w", ctx.Err())
	}
	if s.refused != nil {
		return false, s.refused
	}
	if s.asked {
		return s.free, nil
	}
	if strings.ContainsAny(s.password.Reveal(), "\n\r\x00") {
		return false, errors.New("the password for sudo has several lines: it is one line")
	}
	err = run(ctx, s.Runner, Cmd{Args: []string{"sudo", "-n", "-k", "true"}})
	var exit *ExitError
	if s.free = err == nil; errors.As(err, &exit) {
		err = run(ctx, s.Runner, Cmd{Args: []string{"sudo", "-S", "-k", "-p", "", "true"}, Stdin: strings.NewReader(s.password.Reveal() + "\n")})
		if err == nil { // sudo may read ahead
			err = s.runWithPassword(ctx, Cmd{Args: []string{"true"}})
		}
		if errors.As(err, &exit) {
			refused := &SudoError{exit}
			if exit.Signal == "" { // which a machine that restarts sends
				s.refused = refused
			}
			return false, refused
		}
	}
	s.asked = err == nil
	return s.free, err
}

func (s *sudo) runWithPassword(ctx context.Context, cmd Cmd) error {
	args := cmd.Args
	cmd.Args = append([]string{"sudo", "-S", "-k", "-p", "", "--", "sh", "-c", sudoScript, "sudo.sh", s.end}, args...)
	input := io.Reader(strings.NewReader(s.password.Reveal() + "\n" + s.end + "\n"))
	if cmd.Stdin != nil {
		input = io.MultiReader(input, cmd.Stdin)
	}
	cmd.Stdin = input
	err := run(ctx, s.Runner, cmd)
	var exit *ExitError
	if errors.As(err, &exit) {
		exit.Args = append([]string{"sudo"}, args...) // which the caller knows
	}
	return err
}
