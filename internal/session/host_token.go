package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/secret"
)

// tokenPlace is the place of the API token's secret, and whether the secret exists.
type tokenPlace struct {
	wanted bool   // a token is needed at all
	known  bool   // the secret exists at the file's reference
	why    string // why not
	file   string // where it goes; empty: the terminal
	ref    string // the file's reference, e.g. env:PROXMOX_TOKEN_SECRET

	place *keep.Reservation // created before the token
	made  secret.Value      // for the terminal, after the display has ended
}

// tokenPlace decides where the secret goes: to -out, to the file that cluster.yaml refers to,
// or to the terminal.
func tokenPlaceOf(s *Session, out string) (*tokenPlace, error) {
	if s.Spec.IsLab() {
		return &tokenPlace{}, nil // the lab has its own
	}
	ref := s.Spec.Proxmox.TokenSecret
	p := &tokenPlace{wanted: true, ref: ref.String(), file: out}
	value, err := ref.Resolve()
	p.known = err == nil
	if err == nil {
		s.Redact.Add(value)
	} else {
		p.why = err.Error()
	}
	named, isFile := strings.CutPrefix(p.ref, "file:")
	if p.file == "" && isFile {
		p.file = named
	}
	if p.file == "" || p.file == named {
		return p, nil
	}
	if _, err := os.Stat(p.file); !errors.Is(err, fs.ErrNotExist) {
		return nil, exitErrorf(invalid, "-out=%s: a file of that name exists already: move it, or name another file", p.file)
	}
	return p, nil
}

// checkWritable makes sure, before the token is created, that its secret can be stored.
func (p *tokenPlace) checkWritable() error {
	if p.file == "" {
		if !term.IsTerminal(int(os.Stderr.Fd())) {
			return exitErrorf(invalid, "there is no terminal to show the token's secret on: add -out=FILE, or write secret: file:PATH instead of %s; nothing was changed", p.ref)
		}
		return nil
	}
	place, err := keep.Reserve(p.file, 0o600)
	if err != nil {
		return exitError(invalid, fmt.Errorf("the token's secret: %w", err))
	}
	p.place = place
	return nil
}

// save writes the secret to its file.
func (p *tokenPlace) save(v secret.Value) error {
	p.known = true
	if p.place == nil {
		p.made = v
		return nil
	}
	if err := p.place.Commit([]byte(v.Reveal() + "\n")); err != nil {
		return fmt.Errorf("the token was created, but its secret could not be saved: run it again with -force: %w", err)
	}
	p.made = v
	return nil
}

// show says where the secret is, or shows it, only once per process.
func (p *tokenPlace) show(s *Session) {
	if p.made.IsZero() {
		return
	}
	if p.file != "" {
		s.Printf("The token's secret is in %s, which only you may read.", p.file)
	} else {
		s.Printf("The token's secret, which Proxmox shows only once:\n\n  %s\n", p.made.Reveal())
		if name, ok := strings.CutPrefix(p.ref, "env:"); ok {
			s.Printf("The file looks for it in the environment: export %s=…", printable.Word(name))
		}
	}
	s.Redact.Add(p.made)
	p.made = secret.Value{}
}

// close removes the reserved file if there was no secret.
func (p *tokenPlace) close() { p.place.Discard() }
