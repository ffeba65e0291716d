package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/facts"
)

// here is a Runner in ten lines: it runs commands on this machine.
func here(ctx context.Context, cmd remote.Cmd) error {
	var tail remote.Tail
	c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, cmd.Stdout, &tail
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: cmd.Args, Code: exit.ExitCode(), Stderr: tail.String()}
	}
	return err
}

func Example() {
	ctx := context.Background()
	var machine remote.Runner = remote.RunnerFunc(here) // or an *ssh.Client, or a guest agent

	out, err := remote.Output(ctx, machine, "printf", "%s\n", "as given: $HOME 'and' *")
	fmt.Print(string(out))
	if err != nil {
		fmt.Println(err)
	}
	err = remote.Run(ctx, machine, "cat", "--", "/no/such/file")
	var exit *remote.ExitError
	fmt.Println(errors.As(err, &exit), err)
	// Output:
	// as given: $HOME 'and' *
	// true exit status 1: cat -- /no/such/file: cat: /no/such/file: No such file or directory
}

func ExampleWriteFile() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example")
	defer func() { _ = os.RemoveAll(dir) }()
	machine := remote.RunnerFunc(here)

	path := filepath.Join(dir, "rancher", "k3s", "token")
	if err := remote.WriteFile(ctx, machine, path, []byte("K10…"), 0o600); err != nil {
		fmt.Println(err)
	}
	b, err := remote.ReadFile(ctx, machine, path)
	fmt.Println(string(b), err)
	_, err = remote.ReadFile(ctx, machine, path+".old")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// K10… <nil>
	// true
}

func TestExitErrorSaysWhatAndWhy(t *testing.T) {
	for want, err := range map[string]*remote.ExitError{
		"exit status 3: systemctl start k3s: second | third | fourth": {
			Args: []string{"systemctl", "start", "k3s"}, Code: 3, Stderr: "first\nsecond\r\n\n  third\nfourth\n"},
		"exit status 1: true": {Args: []string{"true"}, Code: 1},
		"ended by signal KILL: sleep 60": {
			Args: []string{"sleep", "60"}, Code: 137, Signal: "KILL"},
		`exit status 2: sh -c "set -e…" sh "a b" "" ü: [31mred`: {
			Args: []string{"sh", "-c", "set -e\nexit 2\n", "sh", "a b", "", "ü"}, Code: 2, Stderr: "\x1b[31mred\a\n"},
		"exit status 1: " + strings.Repeat("x", 60):       {Args: []string{strings.Repeat("x", 60)}, Code: 1},
		"exit status 1: " + strings.Repeat("x", 60) + "…": {Args: []string{strings.Repeat("x", 99)}, Code: 1},
	} {
		assert.EqualError(t, err, want)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tail remote.Tail
	var all strings.Builder
	for i := range 3000 {
		_, err := fmt.Fprintf(io.MultiWriter(&tail, &all), "line %d\n", i)
		require.NoError(t, err)
		s := all.String()
		require.Equal(t, s[max(0, len(s)-remote.TailSize):], tail.String())
	}
	_, _ = tail.Write([]byte(strings.Repeat("ab", remote.TailSize)))
	assert.Equal(t, strings.Repeat("ab", remote.TailSize/2), tail.String())
}

func TestWriteFileWhollyOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	// The connection breaks: the other side sees the end of a shorter input.
	short := remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		cmd.Stdin = io.LimitReader(cmd.Stdin, 5)
		return here(ctx, cmd)
	})
	err := remote.WriteFile(t.Context(), short, path, []byte("new content"), 0o600)
	assert.ErrorContains(t, err, "write "+path+": exit status 1")
	assert.ErrorContains(t, err, "5 of 11 bytes arrived")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(b))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file stays")
}

// A connection that breaks takes standard error with it: sshd closes both. The script is
// told so by a signal when it complains, and leaves nothing then, either.
func TestACutWriteLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	cut := remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		defer func() { assert.NoError(t, writer.Close()) }()
		c := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
		c.Stdin, c.Stdout, c.Stderr = io.LimitReader(cmd.Stdin, 5), writer, writer
		return c.Run()
	})
	require.Error(t, remote.WriteFile(t.Context(), cut, path, []byte("K10secret"), 0o600))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWriteFileRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"", "relative", dir + "/", "/"} {
		assert.ErrorContains(t, remote.WriteFile(t.Context(), remote.RunnerFunc(here), path, nil, 0o644), "not an absolute path of a file")
	}
	assert.ErrorContains(t, remote.WriteFile(t.Context(), remote.RunnerFunc(here), dir, nil, 0o644), "is a folder")
}

func TestReadFileTellsMissingFromForbidden(t *testing.T) {
	fails := func(said string) error {
		r := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
			return &remote.ExitError{Args: cmd.Args, Code: 1, Stderr: said}
		})
		_, err := remote.ReadFile(t.Context(), r, "/x")
		return err
	}
	assert.ErrorIs(t, fails("cat: /x: No such file or directory\n"), fs.ErrNotExist)
	assert.ErrorIs(t, fails("cat: /x: Not a directory\n"), fs.ErrNotExist)
	assert.NotErrorIs(t, fails("cat: /x: Permission denied\n"), fs.ErrNotExist)
	assert.NotErrorIs(t, fails("cat: '/No such file or directory': Permission denied\n"), fs.ErrNotExist)
	assert.NotErrorIs(t, fails(""), fs.ErrNotExist)
	var exit *remote.ExitError
	assert.ErrorAs(t, fails("cat: /x: No such file or directory\n"), &exit)
}

func TestExists(t *testing.T) {
	r := remote.RunnerFunc(here)
	yes, err := remote.Exists(t.Context(), r, t.TempDir())
	require.NoError(t, err)
	assert.True(t, yes)
	no, err := remote.Exists(t.Context(), r, "/no/such/file")
	require.NoError(t, err)
	assert.False(t, no)
	broken := errors.New("no connection")
	_, err = remote.Exists(t.Context(), remote.RunnerFunc(func(context.Context, remote.Cmd) error { return broken }), "/")
	assert.ErrorIs(t, err, broken)
}

func TestScriptsPassShellcheck(t *testing.T) {
	path := facts.Program(t, "shellcheck", "shellcheck")
	out, err := exec.CommandContext(t.Context(), path, "write.sh", "sudo.sh").CombinedOutput()
	assert.NoError(t, err, string(out))
}

func TestANilRunnerIsAnError(t *testing.T) {
	for name, use := range map[string]func(remote.Runner) error{
		"Run":    func(r remote.Runner) error { return remote.Run(t.Context(), r, "true") },
		"Output": func(r remote.Runner) error { _, err := remote.Output(t.Context(), r, "true"); return err },
		"Sudo":   func(r remote.Runner) error { return remote.Run(t.Context(), remote.Sudo(r), "true") },
		"Password": func(r remote.Runner) error {
			return remote.Run(t.Context(), remote.SudoPassword(r, secret.New("x")), "true")
		},
		"ReadFile":  func(r remote.Runner) error { _, err := remote.ReadFile(t.Context(), r, "/etc/motd"); return err },
		"Exists":    func(r remote.Runner) error { _, err := remote.Exists(t.Context(), r, "/etc/motd"); return err },
		"WriteFile": func(r remote.Runner) error { return remote.WriteFile(t.Context(), r, "/etc/motd", nil, 0o644) },
	} {
		assert.ErrorContains(t, use(nil), "there is no Runner to run it on", name)
	}
}
