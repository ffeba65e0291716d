package session

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/secret"
)

// rootPassword returns the password of the user for options that no token may set; nil if the file
// names no user. The password is read, or asked for, when it is needed.
func (s *Session) rootPassword() func(context.Context) (secret.Value, error) {
	p := s.Spec.Proxmox
	if p.User == "" {
		return nil
	}
	return func(ctx context.Context) (secret.Value, error) {
		if !p.Password.IsZero() {
			value, err := p.Password.Resolve()
			if err == nil {
				s.Redact.Add(value)
			}
			return value, err
		}
		return s.askPassword(ctx, p.User)
	}
}

// askPassword asks for a password on the terminal, without an echo.
func (s *Session) askPassword(ctx context.Context, user string) (secret.Value, error) {
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return secret.Value{}, exitErrorf(refused, "there is no terminal to ask on: write proxmox.password: with a reference, e.g. env:NAME")
	}
	s.Prompt(fmt.Sprintf("\nPassword of %s (used once, for hugepages and affinity, and not kept): ", user))
	line, err := readLine(ctx, func() (string, error) { // who cannot be read gave none
		line, _ := term.ReadPassword(in)
		return string(line), nil
	})
	if err != nil {
		return secret.Value{}, err
	}
	_, _ = fmt.Fprintln(s.Talk)
	if line == "" {
		return secret.Value{}, exitError(refused, errors.New("no password was given"))
	}
	value := secret.New(line)
	s.Redact.Add(value)
	return value, nil
}
