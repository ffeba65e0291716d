package real

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// process is one component, running as a child that ends with us.
type process struct {
	name string
	log  string // the file that its output goes to
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // the reason, once done is closed
}

// spawn starts exe as one component, with more variables.
//
// The kernel kills a child with Pdeathsig when the thread that started it ends, so
// each child gets a goroutine that keeps its thread for as long as the child lives.
func spawn(ctx context.Context, exe, which, logFile string, more []string, args ...string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), exe, append([]string{which}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = filepath.Dir(logFile)
	cmd.Env = append(environment(cmd.Dir), more...)
	cmd.SysProcAttr = attributes()
	p := &process{name: which, log: logFile, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer out.Close()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	return p, nil
}

// environment has neither the user's proxy and kubeconfig settings nor the home directory.
func environment(home string) []string {
	return []string{ParentEnv + "=" + strconv.Itoa(os.Getpid()), "PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
}

// kill kills the process and its group, and returns when it is gone. A graceful shutdown would
// have no benefit.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// ended says why the process has ended, with the end of its log; nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.done:
		return &exitError{Component: p.name, Err: p.err, Log: p.log, Tail: tail(p.log, 5)}
	default:
		return nil
	}
}

// exitError is a component that ended by itself.
type exitError struct {
	Component string
	Err       error  // of its exit status
	Log       string // the whole log
	Tail      string // its last lines
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended (%v): %s; its log is %s", e.Component, e.Err, e.Tail, e.Log)
}

func (e *exitError) Unwrap() error { return e.Err }

// portTaken reports whether the component ended because another program took its port before
// it could listen.
func (e *exitError) portTaken() bool { return strings.Contains(e.Tail, "address already in use") }

// tail returns the last n lines of a file, joined by " | ".
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// until calls ready about every 50 ms until it returns nil, one of the processes ends, or ctx
// does; then the error contains the last result of ready.
func until(ctx context.Context, what string, ready func(context.Context) error, procs ...*process) error {
	tick := newTicker()
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range procs {
			if ended := p.ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (%w): %w", what, err, ctx.Err())
		case <-tick.C:
		}
	}
}
