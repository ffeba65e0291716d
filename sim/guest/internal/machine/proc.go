package machine

import (
	"bytes"
	"cmp"
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

	"mvdan.cc/sh/v3/expand"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Proc is a running program: what it may see and where its output goes.
type Proc struct {
	Sys    *System
	Box    *Box // the container it runs in; nil on the machine itself
	FS     *disk.View
	User   *disk.User
	Env    expand.Environ
	Dir    string
	Args   []string
	Stdin  io.Reader // never nil
	Stdout io.Writer
	Stderr io.Writer
	Shell  string       // the shell that started it, for the wording of messages
	Caught *atomic.Bool // set by a shell that catches SIGPIPE, for all of the session; may be nil
	Piped  bool         // whether it was started by a pipeline, where waiting is not possible
}

// Exit statuses of shells.
const (
	exitDenied  = 126
	exitUnknown = 127
	ExitKilled  = 137 // of a program that was ended from outside
)

// SearchPath is where programs are looked for, from a login on.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"

// Session begins a program as a user on the machine, with a login's environment.
func (s *System) Session(u *disk.User, stdin io.Reader, stdout, stderr io.Writer) *Proc {
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	var mu sync.Mutex
	return &Proc{
		Sys: s, FS: s.ViewAs(u, s.RecordChange), User: u, Dir: u.Home, Stdin: stdin,
		Stdout: NewLockedWriter(&mu, stdout), Stderr: NewLockedWriter(&mu, stderr), Shell: "bash",
		Env: expand.ListEnviron("PATH="+SearchPath, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name,
			"SHELL="+u.Shell, "LANG=C.UTF-8"),
	}
}

// NewLockedWriter is a writer that the sides of a pipeline share.
func NewLockedWriter(mu *sync.Mutex, w io.Writer) io.Writer { return &lockedWriter{mu: mu, w: w} }

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

// Name is the name that the program was started by.
func (p *Proc) Name() string { return path.Base(p.Args[0]) }

// Get is a variable of the environment.
func (p *Proc) Get(key string) string { return p.Env.Get(key).String() }

// Abs makes a path absolute.
func (p *Proc) Abs(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return strings.TrimSuffix(p.Dir, "/") + "/" + name
}

// Printf writes to standard output.
func (p *Proc) Printf(format string, args ...any) { fmt.Fprintf(p.Stdout, format, args...) }

// Fail writes "name: message" and returns 1.
func (p *Proc) Fail(format string, args ...any) int {
	fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name(), fmt.Sprintf(format, args...))
	return 1
}

// Find looks for a program as execvp(3) does.
func (p *Proc) Find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return p.executable(p.Abs(name))
	}
	var denied error
	for dir := range strings.SplitSeq(p.Get("PATH"), ":") {
		file, err := p.executable(path.Join(p.Abs(dir), name))
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

func (p *Proc) executable(name string) (string, error) {
	e, err := p.FS.Stat(name)
	switch {
	case err != nil:
		return "", err
	case e.IsDir():
		return "", syscall.EACCES
	case e.Mode().Perm()&0o111 == 0 || !p.FS.May(e, 1):
		return "", syscall.EACCES
	}
	return name, nil
}

// Start runs another program in p's place in the world and waits for it.
func (p *Proc) Start(ctx context.Context, args ...string) int {
	child := *p
	child.Args = args
	return child.Exec(ctx)
}

// Exec runs p.args.
func (p *Proc) Exec(ctx context.Context) int {
	p.Sys.m.ran(p.Args)
	file, err := p.Find(p.Args[0])
	if err != nil {
		return p.notFound(err)
	}
	data := p.FS.Image(file)
	if name, ok := disk.ProgramOf(data); ok && p.Sys.Runs(data) {
		if run := p.Sys.Program(name); run != nil {
			return exitCode(ctx, run(ctx, p))
		}
	}
	if rest, ok := bytes.CutPrefix(data, []byte("#!")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		return p.Start(ctx, append(append(strings.Fields(string(line)), file), p.Args[1:]...)...)
	}
	if len(data) > 0 && disk.IsText(data) { // what shells do after ENOEXEC
		return p.Start(ctx, append([]string{"/bin/sh", file}, p.Args[1:]...)...)
	}
	fmt.Fprintf(p.Stderr, "%s: line 1: %s: cannot execute: Exec format error\n", p.Shell, p.Args[0])
	return exitDenied
}

// Runs reports whether the machine's CPUs can run a program: one that says no arch is of the
// machine's own distribution.
func (s *System) Runs(program []byte) bool {
	arch := disk.Value(program, "arch")
	return arch == "" || arch == cmp.Or(s.Config.Arch, "amd64")
}

// exitCode is what a program that ended with its context looks like.
func exitCode(ctx context.Context, code int) int {
	if ctx.Err() != nil {
		return ExitKilled
	}
	return code
}

func (p *Proc) notFound(err error) int {
	what, code := "command not found", exitUnknown
	switch {
	case errors.Is(err, fs.ErrPermission):
		what, code = "Permission denied", exitDenied
	case strings.Contains(p.Args[0], "/"):
		what = "No such file or directory"
	case p.Shell == "sh":
		what = "not found"
	}
	if p.Shell == "sh" {
		fmt.Fprintf(p.Stderr, "sh: 1: %s: %s\n", p.Args[0], what)
	} else {
		fmt.Fprintf(p.Stderr, "%s: line 1: %s: %s\n", p.Shell, p.Args[0], what)
	}
	return code
}

// Box is a container's own little world.
type Box struct {
	Hostname string
	Visible  string   // NVIDIA_VISIBLE_DEVICES
	Count    int      // cards allotted, where the variable does not name them
	Reloads  int64    // how often systemd had reloaded its units when it began
	Volumes  []string // where volumes are mounted that outlive it
}

// Hostname is the machine's name, or the container's.
func (p *Proc) Hostname() string {
	if p.Box != nil {
		return p.Box.Hostname
	}
	return p.Sys.Hostname()
}

// Environ prints a program's environment as KEY=value, sorted.
func (p *Proc) Environ() []string {
	vars := map[string]string{}
	p.Env.Each(func(name string, v expand.Variable) bool {
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

// NotThere is an error with the words of ENOENT where it says only that.
func NotThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("No such file or directory")
	}
	return err
}
