// Pvesim is a Proxmox VE cluster without hardware: an API for testing OpenTofu, Packer,
// Ansible, Cluster API and your own programs, with tasks that take time, locks and permissions.
//
//	pvesim                              # eight A100, on 127.0.0.1:8006, ten times faster than life
//	pvesim -model site.yaml -speed real
//	pvesim model one-gpu > site.yaml    # a model to begin with
//	pvesim check site.yaml              # what is wrong in it, all at once
//	pvesim record -endpoint https://pve1:8006 -token me@pve!ro > site.yaml
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{out: os.Stdout, talk: os.Stderr, getenv: os.Getenv}
	os.Exit(p.run(ctx, os.Args[1:])) //nolint:gocritic // stop has nothing left to do
}

// program is a run of the command: stdout is for data, stderr for messages.
type program struct {
	out, talk io.Writer
	getenv    func(string) string
}

// Exit codes.
const (
	ok = iota
	failed
	misused
)

func (p *program) run(ctx context.Context, args []string) int {
	do := p.serve
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		commands := map[string]func(context.Context, []string) error{"model": p.model, "check": p.check, "record": p.record, "serve": p.serve}
		if do = commands[args[0]]; do == nil {
			p.say("pvesim: no command %q: there are model, check and record; without one it serves. pvesim -h tells more.", args[0])
			return misused
		}
		args = args[1:]
	}
	switch err := do(ctx, args); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ok
	case errors.As(err, new(usageError)):
		p.say("pvesim: %v", err)
		return misused
	default:
		p.say("pvesim: %v", err)
		return failed
	}
}

func (p *program) say(format string, args ...any) { _, _ = fmt.Fprintf(p.talk, format+"\n", args...) }

// usageError is a wrong flag or word: nothing was done.
type usageError struct{ error }

// flags returns a set whose errors the caller prints, once.
func (p *program) flags(name, usage string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(p.talk)
	f.Usage = func() {
		p.say("%s\n", usage)
		f.PrintDefaults()
	}
	return f
}

func parse(f *flag.FlagSet, args []string, words int) error {
	talk := f.Output()
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	f.SetOutput(talk)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.Usage()
		return err
	case err != nil:
		return usageError{err}
	case words >= 0 && f.NArg() != words:
		return usageError{fmt.Errorf("%s takes %d words beside its flags, and not %d: pvesim %s -h tells more", f.Name(), words, f.NArg(), f.Name())}
	}
	return nil
}

// model prints a preset.
func (p *program) model(_ context.Context, args []string) error {
	f := p.flags("model", "usage: pvesim model NAME > site.yaml\n\nPrints a model to begin with: "+strings.Join(pvesim.Presets(), ", ")+".")
	if err := parse(f, args, -1); err != nil {
		return err
	}
	if f.NArg() != 1 || !slices.Contains(pvesim.Presets(), f.Arg(0)) {
		return usageError{fmt.Errorf("name one of the models: %s", strings.Join(pvesim.Presets(), ", "))}
	}
	text, err := pvesim.PresetYAML(f.Arg(0))
	if err != nil {
		return err
	}
	_, err = p.out.Write(text)
	return err
}

// check reads a model's file and prints a summary or its mistakes.
func (p *program) check(_ context.Context, args []string) error {
	f := p.flags("check", "usage: pvesim check FILE\n\nSays what is wrong in a model's file: all at once, with line and column.")
	if err := parse(f, args, 1); err != nil {
		return err
	}
	data, err := os.ReadFile(f.Arg(0))
	if err != nil {
		return err
	}
	m, err := pvesim.ParseModel(f.Arg(0), data)
	var wrong pvesim.ModelErrors
	if errors.As(err, &wrong) {
		p.say("%v", wrong)
		return fmt.Errorf("%s: %s", f.Arg(0), plural(len(wrong), "mistake"))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s: %s\n", f.Arg(0), summary(m))
	return err
}

// summary is a model in a line.
func summary(m pvesim.Model) string {
	gpus := 0
	for _, h := range m.Hosts {
		for _, d := range h.PCI {
			if strings.HasPrefix(d.Class, "03") {
				gpus++
			}
		}
	}
	return fmt.Sprintf("%s, %s, %s", plural(len(m.Hosts), "host"), plural(gpus, "GPU"), plural(len(m.VMs), "VM"))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
