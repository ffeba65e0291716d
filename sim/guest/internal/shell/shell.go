package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Programs returns the shells, and the programs that are builtins of theirs too.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{
		"sh": runShell, "bash": runShell,
		"test": runTest, "[": runTest,
		"echo": runBuiltin, "printf": runBuiltin, "pwd": runBuiltin,
	}
}

// runShell is sh and bash: -c TEXT [NAME ARG…], FILE [ARG…], or a script on stdin.
func runShell(ctx context.Context, p *machine.Proc) int {
	var set []string
	args := p.Args[1:]
	command := false
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		if strings.HasPrefix(a, "--") { // --norc, --login and such
			continue
		}
		for _, f := range a[1:] {
			switch f {
			case 'c':
				command = true
			case 'o':
				if len(args) > 0 {
					set, args = append(set, "-o", args[0]), args[1:]
				}
			case 'l', 'i', 's':
			default:
				set = append(set, a[:1]+string(f))
			}
		}
	}
	name, script := p.Name(), ""
	switch {
	case command && len(args) == 0:
		fmt.Fprintf(p.Stderr, "%s: 0: -c requires an argument\n", p.Name())
		return 2
	case command:
		script, args = args[0], args[1:]
		if len(args) > 0 {
			name, args = args[0], args[1:]
		}
	case len(args) > 0:
		data, err := p.FS.ReadFile(p.Abs(args[0]))
		if err != nil {
			fmt.Fprintf(p.Stderr, "%s: 0: cannot open %s: %s\n", p.Name(), args[0], disk.Strerror(err))
			return 2
		}
		name, script, args = args[0], string(data), args[1:]
	default:
		data, err := io.ReadAll(p.Stdin)
		if err != nil {
			return 1
		}
		script = string(data)
	}
	child, files := *p, *p.FS
	child.FS = &files // umask is the shell's own
	child.Shell = "sh"
	if p.Name() == "bash" {
		child.Shell = "bash"
	}
	return Run(ctx, &child, name, script, append(append(set, "--"), args...))
}

// Run runs a script. mvdan.cc/sh does the language; files, programs and
// what else of the host it would touch are the guest's.
func Run(ctx context.Context, p *machine.Proc, name, script string, params []string) int {
	lang := syntax.LangPOSIX
	if p.Shell == "bash" {
		lang = syntax.LangBash
	}
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(script), name)
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Shell, err)
		return 2
	}
	if what := unsupportedRedirection(file); what != "" {
		fmt.Fprintf(p.Stderr, "%s: %s: not simulated: %s\n", p.Shell, name, what)
		return 2
	}
	stdin, closeStdin, err := shellInput(p, file)
	if err != nil {
		return p.Fail("%v", err)
	}
	defer closeStdin()
	ids := []string{"HOME=" + p.Get("HOME"), "UID=" + strconv.Itoa(p.User.UID), "EUID=" + strconv.Itoa(p.User.UID),
		"GID=" + strconv.Itoa(p.User.GID), "TMPDIR=/nowhere"} // or the interpreter asks the host
	sh := &session{p: p, lang: lang}
	r, err := interp.New(
		interp.Env(overlay{p.Env, expand.ListEnviron(ids...)}),
		interp.Params(params...),
		interp.StdIO(stdin, p.Stdout, p.Stderr),
		interp.CallHandler(sh.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
		interp.OpenHandler(sh.open),
		interp.StatHandler(sh.stat),
		interp.ReadDirHandler2(sh.readDir),
	)
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Shell, err)
		return 2
	}
	r.Dir = p.Dir // interp.Dir looks for it on the host
	err = r.Run(ctx, file)
	var code interp.ExitStatus
	switch {
	case ctx.Err() != nil:
		return machine.ExitKilled
	case errors.As(err, &code):
		return int(code)
	case err != nil:
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Shell, err)
		return 2
	}
	return 0
}

// unsupportedRedirection names a redirection at which the interpreter would panic.
func unsupportedRedirection(file *syntax.File) (what string) {
	syntax.Walk(file, func(n syntax.Node) bool {
		r, ok := n.(*syntax.Redirect)
		if !ok {
			return true
		}
		if r.N != nil && !slices.Contains([]string{"0", "1", "2"}, r.N.Value) {
			what = "file descriptor " + r.N.Value
		}
		switch arg := r.Word.Lit(); r.Op {
		case syntax.DplOut:
			if arg != "1" && arg != "2" && arg != "-" {
				what = ">&" + arg
			}
		case syntax.DplIn:
			if arg != "-" {
				what = "<&" + arg
			}
		case syntax.RdrInOut:
			what = "<>"
		case syntax.ClbOut:
			what = ">|"
		}
		return true
	})
	return what
}

// shellInput is what the interpreter itself may read from. It insists on a pipe
// of the operating system, which holds up a synctest clock; so it gets one only
// when the script reads by a builtin. Programs read p.stdin directly.
func shellInput(p *machine.Proc, file *syntax.File) (io.Reader, func(), error) {
	reads := false
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			reads = reads || slices.Contains([]string{"read", "mapfile", "readarray"}, call.Args[0].Lit())
		}
		return !reads
	})
	if !reads {
		return nil, func() {}, nil
	}
	if f, ok := p.Stdin.(*os.File); ok {
		return f, func() {}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(w, p.Stdin)
		_ = w.Close()
	}()
	return r, func() { _ = r.Close() }, nil
}

// overlay is an environment over another.
type overlay struct{ under, over expand.Environ }

func (o overlay) Get(name string) expand.Variable {
	if v := o.over.Get(name); v.IsSet() {
		return v
	}
	return o.under.Get(name)
}

func (o overlay) Each(f func(string, expand.Variable) bool) {
	vars := map[string]expand.Variable{}
	for _, e := range []expand.Environ{o.under, o.over} {
		e.Each(func(name string, v expand.Variable) bool { vars[name] = v; return true })
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !f(name, vars[name]) {
			return
		}
	}
}

// session is one run of the interpreter.
type session struct {
	p    *machine.Proc
	lang syntax.LangVariant
}

// procAt is the program's world at this point of the script.
func (s *session) procAt(ctx context.Context) *machine.Proc {
	hc := interp.HandlerCtx(ctx)
	p := *s.p
	p.Env, p.Stdout, p.Stderr = hc.Env, hc.Stdout, hc.Stderr
	// The interpreter's own cd asks the host; ours keeps the directory in PWD.
	p.Dir = hc.Env.Get("PWD").String()
	if hc.Stdin != nil {
		p.Stdin = hc.Stdin
	}
	if _, ok := hc.Stdout.(*os.File); ok {
		p.Piped = true
	}
	return &p
}

// Names that no script can write, for builtins that would ask the host.
const (
	hidden      = "\x00"
	hiddenTest  = hidden + "test"
	hiddenType  = hidden + "type"
	hiddenUmask = hidden + "umask"
	hiddenFail  = hidden + "fail"
)

func (s *session) exec(ctx context.Context, args []string) error {
	p := s.procAt(ctx)
	p.Args = args
	var code int
	switch args[0] {
	case hiddenTest:
		p.Args = args[1:]
		code = runTest(ctx, p)
	case hiddenType:
		code = runType(p)
	case hiddenUmask:
		code = runUmask(s.p, p)
	case hiddenFail:
		fmt.Fprintf(p.Stderr, "%s: line 1: %s\n", s.p.Shell, args[1])
		code = 1
	default:
		code = p.Exec(ctx)
	}
	return exitStatus(ctx, code)
}

// exitStatus hands a program's exit status to the interpreter, as that of a builtin:
// given as interp.ExitStatus it would outlive an if or while that the program was
// the condition of. The && keeps set -e from acting before the statement's own turn.
func exitStatus(ctx context.Context, code int) error {
	if code == 0 {
		return nil
	}
	return interp.HandlerCtx(ctx).Builtin(ctx, []string{"eval", "(exit " + strconv.Itoa(code&0xff) + ") && :"})
}
