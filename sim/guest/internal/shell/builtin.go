package shell

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runBuiltin is for programs that are shell builtins too, when they are started
// without a shell.
func runBuiltin(ctx context.Context, p *machine.Proc) int {
	text := make([]string, len(p.Args))
	text[0] = p.Name()
	for i, a := range p.Args[1:] {
		quoted, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return p.Fail("%v", err)
		}
		text[i+1] = quoted
	}
	child := *p
	child.Shell = "bash"
	return Run(ctx, &child, p.Name(), strings.Join(text, " "), nil)
}

// runType is type and command -v.
func runType(p *machine.Proc) int {
	verbose := p.Args[1] == "-V"
	code := 0
	for _, name := range p.Args[2:] {
		what, err := name, error(nil)
		if !interp.IsBuiltin(name) {
			what, err = p.Find(name)
		}
		switch {
		case err != nil && verbose:
			fmt.Fprintf(p.Stderr, "%s: line 1: type: %s: not found\n", p.Shell, name)
			code = 1
		case err != nil:
			code = 1
		case !verbose:
			p.Printf("%s\n", what)
		case what == name:
			p.Printf("%s is a shell builtin\n", name)
		default:
			p.Printf("%s is %s\n", name, what)
		}
	}
	return code
}

func runUmask(shell, p *machine.Proc) int {
	if len(p.Args) < 2 {
		p.Printf("%04o\n", uint32(shell.FS.Umask))
		return 0
	}
	n, err := strconv.ParseUint(p.Args[1], 8, 12)
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: umask: Illegal mode: %s\n", p.Shell, p.Args[1])
		return 2
	}
	shell.FS.Umask = disk.UnixMode(n)
	return 0
}
