//go:build unix

package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// LocalExec is a [Server.Exec] that runs commands with this machine's /bin/sh, as the user who
// runs the test, no matter who logged in. When ctx ends, the command and its children get
// SIGTERM, as OpenSSH does at the end of a session.
func LocalExec(ctx context.Context, _, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	// A pipe of our own: Wait would wait for the end of stdin, even if the program does not
	// read it.
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
