package guest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
)

// login runs a command line as a user's login shell does.
func (s *system) login(ctx context.Context, name, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	return s.loginAs(ctx, name, command, stdin, stdout, stderr, &atomic.Bool{})
}

func (s *system) loginAs(ctx context.Context, name, command string, stdin io.Reader, stdout, stderr io.Writer, caught *atomic.Bool) int {
	u := disk.FindUser(s.root(), name)
	if u == nil {
		return 1
	}
	p := s.session(u, stdin, stdout, stderr)
	p.caught = caught
	if e, err := p.fs.Stat(u.Home); err != nil || !e.IsDir() {
		p.dir = "/"
	}
	if strings.TrimSpace(command) == "" {
		fmt.Fprintln(stderr, "This is a simulated machine: it runs commands, but has no interactive shell.")
		return 1
	}
	shell := "bash"
	if u.Shell == "/bin/sh" {
		shell = "sh"
	}
	p.args = []string{"/bin/" + shell, "-c", command}
	return p.exec(ctx)
}
