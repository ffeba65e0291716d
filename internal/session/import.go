package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/importer"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
)

// ImportFlags are the flags of cluster:import.
type ImportFlags struct {
	From  string `help:"PATH: a folder or file with variables of OpenTofu or Terraform, an inventory of Ansible, a .env, or a template's nodes.yaml"`
	Out   string `help:"FILE: the file to write, which must not exist; default: cluster.yaml"`
	Name  string `help:"NAME: the cluster's name; default: that of the input"`
	Adopt bool   `help:"take over the VMs that run already; cluster:down then destroys them"`
	Lab   bool   `help:"write the file for simulated hosts, to try it"`
}

// Import writes a cluster.yaml from another tool's inputs, and lists the outcome for each setting.
func Import(_ context.Context, c *console.Console, o ImportFlags) error {
	o.Out = cmp.Or(o.Out, DefaultSpec)
	if o.From == "" {
		return exitErrorf(invalid, "name what is to be imported: -from=PATH, a folder or a file")
	}
	if _, err := os.Lstat(o.Out); !errors.Is(err, fs.ErrNotExist) {
		return exitErrorf(refused, "%s exists already, and nothing is overwritten: write another with -out=FILE", o.Out)
	}
	r, err := importer.Import(o.From, o.Out, importer.Options{Name: o.Name, Adopt: o.Adopt, Lab: o.Lab})
	if err != nil {
		return exitError(invalid, err)
	}
	if err := keep.WriteFile(o.Out, []byte(c.Commands(r.Text)), 0o644); err != nil {
		return err
	}
	return printImported(c, o.Out, r)
}

func printImported(c *console.Console, out string, r *importer.Result) error {
	c.Printf("Wrote %s from %s: %s.", out, printable.Count(len(r.Files), "file"), strings.Join(r.Files, ", "))
	c.Printf("%s: %d carried over, %d as references to secrets, %d that need none here, %d without a place.", printable.Count(len(r.Settings), "setting"),
		r.Count(importer.Carried), r.Count(importer.Secret), r.Count(importer.Needless), r.Count(importer.NoPlace))
	section := func(fate importer.Fate, title string, line func(importer.Setting) string) {
		if r.Count(fate) == 0 {
			return
		}
		c.Printf("\n%s:", title)
		for _, s := range r.Settings {
			if s.Fate == fate {
				c.Printf("  %s", printable.Text(line(s)))
			}
		}
	}
	section(importer.Secret, "Secrets, which are not copied: set these variables", func(s importer.Setting) string {
		return fmt.Sprintf("%s  %s of %s", s.Env, s.Name, s.Place)
	})
	told := func(s importer.Setting) string { return fmt.Sprintf("%s %s: %s", s.Place, s.Name, s.Reason) }
	section(importer.NoPlace, "Without a place", told)
	section(importer.Needless, "Need no setting here", told)
	for _, n := range r.Notes {
		c.Printf("\n%s", printable.Text(n))
	}
	if len(r.Missing) > 0 {
		return exitError(invalid, fmt.Errorf("%s was written, and still lacks:\n%w", out, r.Missing))
	}
	flag := ""
	if out != DefaultSpec {
		flag = " -spec=" + printable.Word(filepath.ToSlash(out))
	}
	c.Printf("\nNext:\n  homelab cluster:validate%s    checks it again after your changes\n  homelab cluster:plan%s        what cluster:up would do", flag, flag)
	return nil
}
