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

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/draft"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/secret"
)

// Init inspects hosts and writes a first cluster.yaml for them.
func Init(ctx context.Context, c *console.Console, o InitFlags) error {
	s := &Session{Console: c, opt: Options{Start: true}}
	defer s.Close()
	return writeFirst(s, ctx, o, newAsker(s.Console, o.Yes))
}

func writeFirst(s *Session, ctx context.Context, o InitFlags, ask *asker) error {
	o.Out = cmp.Or(o.Out, DefaultSpec)
	if err := o.missingFlags(ctx, ask); err != nil {
		return err
	}
	if err := o.checkMayWrite(ctx, ask); err != nil {
		return err
	}
	login, err := introduce(s, ctx, &o, ask)
	if err != nil {
		return err
	}
	s.Progress("inspecting the hosts")
	found, err := draft.Discover(ctx, login.client)
	s.Progress("")
	if err != nil {
		return err
	}
	printFound(s, found)
	answers, err := o.decide(ctx, found, login, ask)
	if err != nil {
		return err
	}
	if err := answers.Check(found); err != nil {
		return exitError(invalid, err)
	}
	if err := login.saveSecret(&answers, filepath.Dir(o.Out)); err != nil {
		return err
	}
	text, err := draft.Render(found, answers)
	if err != nil {
		return exitError(invalid, err)
	}
	if err := keep.WriteFile(o.Out, []byte(s.Commands(text)), 0o644); err != nil {
		return err
	}
	return printAfterInit(s, o.Out, found, answers)
}

// checkMayWrite refuses to replace a file without consent.
func (o InitFlags) checkMayWrite(ctx context.Context, ask *asker) error {
	_, err := os.Stat(o.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(o.Out)); err != nil || !info.IsDir() {
			return exitErrorf(invalid, "-out=%s: there is no folder %s", o.Out, filepath.Dir(o.Out))
		}
		return nil
	case err != nil:
		return err
	case o.Force:
		return nil
	case !ask.person:
		return exitErrorf(refused, "%s exists already: write another with -out=FILE, or replace it with -force; nothing was done", o.Out)
	}
	return ask.confirm(ctx, fmt.Sprintf("%s exists already. Replace it? Type yes:  ", o.Out))
}

// missingFlags lists all flags that are needed if there is nobody to ask, also those that are found out
// later. A flag that is the only one missing is left to the check that explains it.
func (o InitFlags) missingFlags(ctx context.Context, ask *asker) error {
	if ask.person {
		return nil
	}
	var need []string
	if o.Endpoint == "" {
		need = append(need, "-endpoint=ADDRESS (or -endpoint=lab, which needs nothing else)")
	}
	if o.Endpoint != spec.Lab {
		if o.Token == "" {
			need = append(need, "-token=USER@REALM!NAME")
		}
		if o.Secret == "" {
			need = append(need, "-secret=env:NAME or -secret=file:PATH")
		}
	}
	later := 0
	if _, err := os.Stat(o.Out); err == nil && !o.Force {
		need, later = append(need, fmt.Sprintf("-force or -out=FILE, since %s exists already", o.Out)), later+1
	}
	if o.Endpoint != "" && o.Endpoint != spec.Lab && o.Fingerprint == "" && !o.Insecure {
		if shown, trusted, err := proxmox.Certificate(ctx, o.Endpoint); err == nil && !trusted {
			need, later = append(need, fmt.Sprintf("-fingerprint=%s, if pvenode cert info shows the same on the host", shown)), later+1
		}
	}
	if len(need) > later || later > 1 {
		return exitErrorf(invalid, "there is no terminal to ask on, so these are needed:\n  %s", strings.Join(need, "\n  "))
	}
	return nil
}

// login is a login to Proxmox, and its form in the file.
type login struct {
	client      *proxmox.Client
	endpoint    string
	token       string
	ref         string       // reference to the secret; empty while it is in typed
	typed       secret.Value // typed by the user, to be stored in a file
	fingerprint string
	insecure    bool
}

// introduce asks for the endpoint, checks its certificate, and asks for the token.
func introduce(s *Session, ctx context.Context, o *InitFlags, ask *asker) (*login, error) {
	l := &login{token: o.Token, insecure: o.Insecure}
	var err error
	endpoint := func(s string) error {
		if s == spec.Lab {
			return nil
		}
		return draft.CheckEndpoint(s)
	}
	if l.endpoint, err = ask.text(ctx, "Proxmox VE host, or lab for simulated ones", o.Endpoint, spec.Lab, endpoint); err != nil {
		return nil, err
	}
	if l.endpoint == spec.Lab {
		var b cluster.Backend
		if err := s.openLab(ctx, &b); err != nil {
			return nil, err
		}
		l.client = b.Proxmox
		return l, nil
	}
	if l.fingerprint, err = certificateOf(s, ctx, l.endpoint, *o, ask); err != nil {
		return nil, err
	}
	if l.token, err = ask.text(ctx, "API token (user@realm!name; homelab host:prep makes one, or see https://github.com/cps-gpu/homelab/blob/main/docs/real-host.md)", o.Token, "homelab@pve!cluster", draft.CheckToken); err != nil {
		return nil, err
	}
	value, err := l.secret(ctx, *o, ask)
	if err != nil {
		return nil, err
	}
	s.Redact.Add(value)
	l.client, err = proxmox.Dial(ctx,
		s.withClient(proxmox.Config{Endpoint: l.endpoint, TokenID: l.token, TokenSecret: value, Fingerprint: l.fingerprint, Insecure: l.insecure}))
	return l, err
}

// certificate compares the host's certificate, as ssh(1) does with keys, before anything is
// sent. A trusted one needs no fingerprint.
func certificateOf(s *Session, ctx context.Context, endpoint string, o InitFlags, ask *asker) (string, error) {
	switch {
	case o.Fingerprint != "" && o.Insecure:
		return "", errors.New("-fingerprint and -insecure exclude each other: give one of them")
	case o.Fingerprint != "" || o.Insecure:
		return o.Fingerprint, nil
	}
	shown, trusted, err := proxmox.Certificate(ctx, endpoint)
	if err != nil || trusted {
		return "", err
	}
	if !ask.person {
		return "", exitErrorf(refused, "the certificate of %s is not signed by an authority that this machine trusts, and there is no terminal to ask on. Compare its SHA-256 fingerprint (pvenode cert info, on the host) and add\n  -fingerprint=%s", endpoint, shown)
	}
	s.Printf("The certificate of %s is not signed by an authority that this machine trusts. Its SHA-256 fingerprint is\n  %s\nOn the host, pvenode cert info shows the right one.", endpoint, shown)
	return shown, ask.confirm(ctx, "Are they the same? Type yes: ")
}

// secret gets the token's secret: from the flag, or from the terminal, where it may also be a
// reference.
func (l *login) secret(ctx context.Context, o InitFlags, ask *asker) (secret.Value, error) {
	dir := filepath.Dir(o.Out)
	if o.Secret != "" {
		return l.resolve(o.Secret, dir)
	}
	typed, err := ask.askHidden(ctx, "Its secret (not shown; or env:NAME, file:PATH where it is): ")
	if err != nil {
		return secret.Value{}, err
	}
	if _, err := spec.ParseSecretRef(typed); err == nil {
		return l.resolve(typed, dir)
	}
	l.typed = secret.New(typed)
	return l.typed, nil
}

// resolve reads a secret by a reference of a file in dir.
func (l *login) resolve(text, dir string) (secret.Value, error) {
	l.ref = text
	ref, err := spec.ParseSecretRef(text)
	if err != nil {
		return secret.Value{}, exitErrorf(invalid, "-secret: write env:NAME, file:PATH or sops:FILE#path; every user of this machine can read a command line")
	}
	value, err := ref.RelativeTo(dir).Resolve()
	if err != nil {
		return secret.Value{}, exitError(invalid, fmt.Errorf("-secret: %w", err))
	}
	return value, nil
}

// saveSecret writes a typed secret to a file of its own, beside the one that will refer to it.
func (l *login) saveSecret(a *draft.Answers, dir string) error {
	if l.typed.IsZero() {
		return nil
	}
	path := filepath.Join(".homelab", a.Name, "proxmox-token")
	if err := keep.WriteFile(filepath.Join(dir, path), []byte(l.typed.Reveal()+"\n"), 0o600); err != nil {
		return err
	}
	a.Secret = "file:" + filepath.ToSlash(path)
	return nil
}

// tellFound shows the hosts.
func printFound(s *Session, f draft.Inventory) {
	s.Printf("Proxmox VE %s:", f.Version)
	for _, h := range f.Hosts {
		models := map[string]int{}
		var order []string
		for _, g := range h.GPUs {
			if models[g.Model]++; models[g.Model] == 1 {
				order = append(order, g.Model)
			}
		}
		cards := "no NVIDIA card"
		for i, m := range order {
			order[i] = fmt.Sprintf("%d × %s", models[m], m)
		}
		if h.Blind {
			cards = "its PCI devices cannot be seen: grant the token Sys.Audit on /"
		}
		if len(order) > 0 {
			cards = fmt.Sprintf("%s (%d free)", strings.Join(order, ", "), len(h.FreeGPUs()))
		}
		s.Printf("  %s: %d CPUs, %s, %s", h.Name, h.CPUs, h.Memory.Approximate(), cards)
	}
}

// tellNext reads the file as every command does, and says what to do next.
func printAfterInit(s *Session, path string, f draft.Inventory, a draft.Answers) error {
	spec, err := cluster.Load(path)
	if err != nil {
		return exitError(invalid, fmt.Errorf("%s was written, and is not valid:\n%w", path, err))
	}
	for _, w := range spec.Warnings {
		s.Printf("warning: %s", w)
	}
	for _, w := range draft.Warnings(f, a) {
		s.Printf("warning: %s", w)
	}
	s.Printf("Wrote %s: %s, %s, %s.", path, printable.Count(len(spec.Servers()), "server"), printable.Count(len(spec.Agents()), "agent"),
		printable.Count(spec.GPUCount(), "GPU"))
	if strings.HasPrefix(a.Secret, "file:.homelab/") {
		s.Printf("The token's secret is in %s, mode 0600; keep .homelab out of version control.",
			filepath.Join(filepath.Dir(path), strings.TrimPrefix(a.Secret, "file:")))
	}
	flag := ""
	if path != DefaultSpec {
		flag = " -spec=" + printable.Word(path)
	}
	s.Printf("\nNext:\n  homelab cluster:plan%s    what cluster:up would do\n  homelab cluster:up%s      create it", flag, flag)
	return nil
}
