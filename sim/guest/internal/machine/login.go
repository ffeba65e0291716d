package machine

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// Login runs a command line as a user's login shell does.
func (s *System) Login(ctx context.Context, name, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	return s.LoginAs(ctx, name, command, stdin, stdout, stderr, &atomic.Bool{})
}

// LoginAs is Login for one that wants to know of a shell that catches SIGPIPE.
func (s *System) LoginAs(ctx context.Context, name, command string, stdin io.Reader, stdout, stderr io.Writer, caught *atomic.Bool) int {
	u := disk.FindUser(s.Root(), name)
	if u == nil {
		return 1
	}
	p := s.Session(u, stdin, stdout, stderr)
	p.Caught = caught
	if e, err := p.FS.Stat(u.Home); err != nil || !e.IsDir() {
		p.Dir = "/"
	}
	if strings.TrimSpace(command) == "" {
		fmt.Fprintln(stderr, "This is a simulated machine: it runs commands, but has no interactive shell.")
		return 1
	}
	shell := "bash"
	if u.Shell == "/bin/sh" {
		shell = "sh"
	}
	p.Args = []string{"/bin/" + shell, "-c", command}
	return p.Exec(ctx)
}
