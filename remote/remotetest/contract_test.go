//go:build unix

// Its commands run on this machine, as in a guest: in a process group.

package remotetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
)

// here runs commands on this machine, without a shell, as a guest agent does.
func here(ctx context.Context, cmd remote.Cmd) error {
	if len(cmd.Args) == 0 {
		return errors.New("no command")
	}
	var tail remote.Tail
	var out, stderr, input bytes.Buffer
	if cmd.Stdin != nil {
		read := make(chan error, 1)
		go func() { _, err := input.ReadFrom(cmd.Stdin); read <- err }()
		select {
		case err := <-read:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Stdin, c.Stdout, c.Stderr = &input, &out, io.MultiWriter(&stderr, &tail)
	err := c.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(handOver(cmd.Stdout, out.Bytes()), handOver(cmd.Stderr, stderr.Bytes())); err != nil {
		return err
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: cmd.Args, Code: exit.ExitCode(), Stderr: tail.String()}
	}
	if errors.Is(err, exec.ErrNotFound) {
		return &remote.ExitError{Args: cmd.Args, Code: 127}
	}
	return err
}

func handOver(to io.Writer, b []byte) error {
	if to == nil || len(b) == 0 {
		return nil
	}
	_, err := to.Write(b)
	return err
}

// change is here with something wrong about each command.
func change(f func(*remote.Cmd)) remote.RunnerFunc {
	return func(ctx context.Context, cmd remote.Cmd) error {
		f(&cmd)
		return here(ctx, cmd)
	}
}

// bad are Runners with one fault each, by the subtest that must catch it.
func bad() map[string]remote.RunnerFunc {
	return map[string]remote.RunnerFunc{
		"ExitStatus": func(ctx context.Context, cmd remote.Cmd) error {
			err := here(ctx, cmd)
			if exit, ok := errors.AsType[*remote.ExitError](err); ok {
				exit.Code = min(exit.Code, 1)
			}
			return err
		},
		"ExitErrorSaysWhy": func(ctx context.Context, cmd remote.Cmd) error {
			err := here(ctx, cmd)
			if exit, ok := errors.AsType[*remote.ExitError](err); ok {
				exit.Stderr = ""
			}
			return err
		},
		"NoCommand": change(func(c *remote.Cmd) {
			if len(c.Args) == 0 {
				c.Args = []string{"false"}
			}
		}),
		"ArgumentsVerbatim": change(func(c *remote.Cmd) { c.Args = []string{"sh", "-c", strings.Join(c.Args, " ")} }),
		"Stdin":             change(func(c *remote.Cmd) { c.Stdin = nil }),
		"BinaryData": change(func(c *remote.Cmd) {
			if c.Stdin != nil {
				b, _ := io.ReadAll(c.Stdin)
				c.Stdin = strings.NewReader(strings.ToValidUTF8(string(b), "?"))
			}
		}),
		"OutputsApart":   change(func(c *remote.Cmd) { c.Stderr = c.Stdout }),
		"LongOutput":     change(func(c *remote.Cmd) { c.Args = append([]string{"sh", "-c", `"$@" | head -c 65536`, "sh"}, c.Args...) }),
		"FailingStreams": change(func(c *remote.Cmd) { c.Stdout, c.Stderr = nil, nil }),
		"Cancel": func(ctx context.Context, cmd remote.Cmd) error {
			err := here(ctx, cmd)
			if ctx.Err() != nil {
				time.Sleep(1100 * time.Millisecond) // longer than what is prompt
			}
			return err
		},
		"CancelledBefore": func(ctx context.Context, cmd remote.Cmd) error {
			if cmd.Args[0] == "sleep" && ctx.Err() != nil {
				return nil
			}
			return here(ctx, cmd)
		},
		"FilePermissions": change(func(c *remote.Cmd) {
			if len(c.Args) == 7 {
				c.Args[5] = "0644"
			}
		}),
		"FileErrors": func(ctx context.Context, cmd remote.Cmd) error {
			_ = here(ctx, cmd)
			return nil
		},
	}
}

// badName selects a bad Runner in the process that TestContractCatches starts.
const badName = "REMOTETEST_BAD_RUNNER"

func TestContract(t *testing.T) {
	r := remote.RunnerFunc(here)
	if name := os.Getenv(badName); name != "" {
		r = bad()[name]
	}
	remotetest.Contract(t, func(*testing.T) remote.Runner { return r })
}

// TestContractCatches: the suite fails for Runners that are wrong, and in the
// subtest that is about the fault.
func TestContractCatches(t *testing.T) {
	for name := range bad() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestContract$/^"+name+"$")
			cmd.Env = append(os.Environ(), badName+"="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "nothing was caught")
			assert.Contains(t, string(out), fmt.Sprintf("--- FAIL: TestContract/%s", name))
		})
	}
}
