//go:build unix

package remotetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// LocalExec is a [Server.Exec] that runs commands with this machine's /bin/sh, as
// the user who runs the test, whoever logged in. The end of ctx is a SIGTERM to the
// command and all it started, as a session's end is for OpenSSH.
func LocalExec(ctx context.Context, _, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	// A pipe of our own: Wait would wait for stdin to end, which a program that
	// does not read it need not.
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 126
	}
	go func() {
		_, _ = io.Copy(in, stdin)
		_ = in.Close()
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return 0
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return -int(status.Signal())
		}
		return exit.ExitCode()
	default: // the end of ctx
		return -int(syscall.SIGTERM)
	}
}
