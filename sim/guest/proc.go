package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"mvdan.cc/sh/v3/expand"
)

// proc is a running program: what it may see and where its output goes.
type proc struct {
	sys    *system
	box    *box // the container it runs in; nil on the machine itself
	fs     *disk.View
	user   *disk.User
	env    expand.Environ
	dir    string
	args   []string
	stdin  io.Reader // never nil
	stdout io.Writer
	stderr io.Writer
	shell  string       // the shell that started it, for the wording of messages
	caught *atomic.Bool // set by a shell that catches SIGPIPE, for all of the session; may be nil
	line   bool         // whether it was started by a pipeline, where waiting is not possible
}

// exit statuses of shells
const (
	exitDenied  = 126
	exitUnknown = 127
	exitKilled  = 137
)

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"

// session begins a program as a user on the machine, with a login's environment.
func (s *system) session(u *disk.User, stdin io.Reader, stdout, stderr io.Writer) *proc {
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	var mu sync.Mutex
	return &proc{
		sys: s, fs: s.viewAs(u, s.mutated), user: u, dir: u.Home, stdin: stdin,
		stdout: &lockedWriter{mu: &mu, w: stdout}, stderr: &lockedWriter{mu: &mu, w: stderr}, shell: "bash",
		env: expand.ListEnviron("PATH="+searchPath, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name,
			"SHELL="+u.Shell, "LANG=C.UTF-8"),
	}
}

// lockedWriter lets the sides of a pipeline write to one place.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return len(p), nil
	}
	return l.w.Write(p)
}

func (p *proc) name() string          { return path.Base(p.args[0]) }
func (p *proc) get(key string) string { return p.env.Get(key).String() }

// abs makes a path absolute.
func (p *proc) abs(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return strings.TrimSuffix(p.dir, "/") + "/" + name
}

func (p *proc) printf(format string, args ...any) { fmt.Fprintf(p.stdout, format, args...) }

// fail writes "name: message" and returns 1.
func (p *proc) fail(format string, args ...any) int {
	fmt.Fprintf(p.stderr, "%s: %s\n", p.name(), fmt.Sprintf(format, args...))
	return 1
}

// find looks for a program as execvp(3) does.
func (p *proc) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return p.executable(p.abs(name))
	}
	var denied error
	for dir := range strings.SplitSeq(p.get("PATH"), ":") {
		file, err := p.executable(path.Join(p.abs(dir), name))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fs.ErrNotExist
}

func (p *proc) executable(name string) (string, error) {
	e, err := p.fs.Stat(name)
	switch {
	case err != nil:
		return "", err
	case e.IsDir():
		return "", syscall.EACCES
	case e.Mode().Perm()&0o111 == 0 || !p.fs.May(e, 1):
		return "", syscall.EACCES
	}
	return name, nil
}

// start runs another program in p's place in the world and waits for it.
func (p *proc) start(ctx context.Context, args ...string) int {
	child := *p
	child.args = args
	return child.exec(ctx)
}

// exec runs p.args.
func (p *proc) exec(ctx context.Context) int {
	p.sys.m.ran(p.args)
	file, err := p.find(p.args[0])
	if err != nil {
		return p.notFound(err)
	}
	data := p.fs.Image(file)
	if name, ok := disk.ProgramOf(data); ok {
		if run := p.sys.program(name); run != nil {
			return exitCode(ctx, run(ctx, p))
		}
	}
	if rest, ok := bytes.CutPrefix(data, []byte("#!")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		return p.start(ctx, append(append(strings.Fields(string(line)), file), p.args[1:]...)...)
	}
	if len(data) > 0 && disk.IsText(data) { // what shells do after ENOEXEC
		return p.start(ctx, append([]string{"/bin/sh", file}, p.args[1:]...)...)
	}
	fmt.Fprintf(p.stderr, "%s: line 1: %s: cannot execute: Exec format error\n", p.shell, p.args[0])
	return exitDenied
}

// exitCode is what a program that ended with its context looks like.
func exitCode(ctx context.Context, code int) int {
	if ctx.Err() != nil {
		return exitKilled
	}
	return code
}

func (p *proc) notFound(err error) int {
	what, code := "command not found", exitUnknown
	switch {
	case errors.Is(err, fs.ErrPermission):
		what, code = "Permission denied", exitDenied
	case strings.Contains(p.args[0], "/"):
		what = "No such file or directory"
	case p.shell == "sh":
		what = "not found"
	}
	if p.shell == "sh" {
		fmt.Fprintf(p.stderr, "sh: 1: %s: %s\n", p.args[0], what)
	} else {
		fmt.Fprintf(p.stderr, "%s: line 1: %s: %s\n", p.shell, p.args[0], what)
	}
	return code
}

// box is a container's own little world.
type box struct {
	visible string // NVIDIA_VISIBLE_DEVICES
	count   int    // cards allotted, where the variable does not name them
}

// exported prints a program's environment as KEY=value, sorted.
func (p *proc) exported() []string {
	vars := map[string]string{}
	p.env.Each(func(name string, v expand.Variable) bool {
		if delete(vars, name); v.Exported && v.Kind == expand.String {
			vars[name] = v.Str
		}
		return true
	})
	var out []string
	for k, v := range vars {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}
