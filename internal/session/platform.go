package session

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
)

// Passwords prints the generated passwords: only to a terminal, unless a flag allows
// otherwise.
func Passwords(s *Session, ctx context.Context, f PasswordsFlags) error {
	all := cluster.Passwords(s.Spec)
	if len(all) == 0 {
		s.Printf("No part of %s has a password that was generated.", s.Spec.Name)
		return nil
	}
	if !f.Yes && !term.IsTerminal(int(os.Stdout.Fd())) {
		return exitErrorf(refused, "passwords would go into a file or another program: add -yes to allow that")
	}
	type row struct {
		Title  string `json:"title"`
		Secret string `json:"secret"`
		Value  string `json:"value"`
	}
	var rows []row
	t := console.Table{Header: []string{"PASSWORD", "VALUE"}} // a value that is cut or goes over two lines cannot be copied
	client, err := s.Cluster.Kube(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		value, err := p.Read(ctx, client)
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%s/%s, %s", p.Namespace, p.Name, p.Key)
		rows = append(rows, row{p.Title, at, value.Reveal()})
		t.Add(p.Title, value.Reveal())
	}
	if s.JSON {
		return console.Objects(s.Console, rows)
	}
	s.Table(t)
	for _, r := range rows {
		s.Printf("%s: Secret %s", r.Title, r.Secret)
	}
	s.Printf("Change them after the first login; what you set there is not shown here.")
	return nil
}
