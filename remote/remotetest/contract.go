package remotetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
)

// promptly is the time within which Run must return after its context ended.
const promptly = time.Second

// Contract tests that the Runner that connect returns conforms to [remote.Runner]. It calls
// connect once for each subtest; connect releases resources with t.Cleanup.
//
// The machine must be real or equivalent: POSIX sh, and cat, chmod, ls, mkdir, mktemp, mv, rm,
// sleep, stat, test, true and wc. A test without its prerequisite, such as sudo, is skipped
// with a message.
func Contract(t *testing.T, connect func(t *testing.T) remote.Runner) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, remote.Runner){
		"ExitStatus":        exitStatus,
		"ExitErrorSaysWhy":  exitErrorSaysWhy,
		"MissingProgram":    missingProgram,
		"NoCommand":         noCommand,
		"ArgumentsVerbatim": argumentsVerbatim,
		"Stdin":             stdin,
		"StdinNotRead":      stdinNotRead,
		"BinaryData":        binaryData,
		"OutputsApart":      outputsApart,
		"LongOutput":        longOutput,
		"FailingStreams":    failingStreams,
		"Cancel":            cancelRunning,
		"CancelledBefore":   cancelledBefore,
		"SideBySide":        sideBySide,
		"Files":             files,
		"FilePermissions":   filePermissions,
		"FileErrors":        fileErrors,
		"Sudo":              sudo,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t)) })
	}
}

func exitStatus(t *testing.T, r remote.Runner) {
	require.NoError(t, remote.Run(t.Context(), r, "true"))
	for _, code := range []int{1, 2, 3, 42, 126, 255} {
		err := remote.Run(t.Context(), r, "sh", "-c", `exit "$1"`, "sh", fmt.Sprint(code))
		var exit *remote.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, code, exit.Code)
		assert.Empty(t, exit.Signal)
	}
}

func exitErrorSaysWhy(t *testing.T, r remote.Runner) {
	args := []string{"sh", "-c", `echo out; echo first >&2; echo "no $1" >&2; exit 3`, "sh", "luck"}
	var stderr bytes.Buffer
	err := r.Run(t.Context(), remote.Cmd{Args: args, Stderr: &stderr})
	var exit *remote.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, args, exit.Args)
	assert.Equal(t, "first\nno luck\n", exit.Stderr)
	assert.Equal(t, "first\nno luck\n", stderr.String())
	assert.ErrorContains(t, err, "exit status 3: sh -c")
	assert.ErrorContains(t, err, "first | no luck")

	out, err := remote.Output(t.Context(), r, args...)
	assert.Equal(t, "out\n", string(out), "what was written is returned with the error")
	assert.Error(t, err)

	long := `i=0; while [ $i -lt 300 ]; do echo "line $i of a long complaint" >&2; i=$((i+1)); done; exit 1`
	require.ErrorAs(t, remote.Run(t.Context(), r, "sh", "-c", long), &exit)
	assert.LessOrEqual(t, len(exit.Stderr), remote.TailSize)
	assert.True(t, strings.HasSuffix(exit.Stderr, "line 299 of a long complaint\n"))
}

func missingProgram(t *testing.T, r remote.Runner) {
	var exit *remote.ExitError
	require.ErrorAs(t, remote.Run(t.Context(), r, "no-such-program-here", "x"), &exit)
	assert.Equal(t, 127, exit.Code)
}

func noCommand(t *testing.T, r remote.Runner) {
	err := r.Run(t.Context(), remote.Cmd{})
	require.Error(t, err)
	var exit *remote.ExitError
	assert.False(t, errors.As(err, &exit), "nothing was run, so nothing exited: %v", err)
}

func argumentsVerbatim(t *testing.T, r remote.Runner) {
	args := []string{
		"plain", "two words", "  blanks  around  ", "", "'", "''", `"`, `\`, `\\'`, "it's \"so\"", "a\nb\n", "\t",
		"$HOME", "${PATH}", "$(id)", "`id`", "*", "?", "[a-z]", "~", "!!", "#x", "a;b", "a&b", "a|b", "<>", "{a,b}",
		"-n", "--", "=", "ü – 😀", "%s\\n", "x=y",
	}
	out, err := remote.Output(t.Context(), r, append([]string{"sh", "-c", `for a do printf '<%s>' "$a"; done`, "sh"}, args...)...)
	require.NoError(t, err)
	assert.Equal(t, "<"+strings.Join(args, "><")+">", string(out))
}

func stdin(t *testing.T, r remote.Runner) {
	text := strings.Repeat("a line of text\n", 40<<10/15)
	var out bytes.Buffer
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader(text), Stdout: &out}))
	assert.Equal(t, text, out.String())

	got, err := remote.Output(t.Context(), r, "cat") // ends, since no input is an empty one
	require.NoError(t, err)
	assert.Empty(t, got)
}

func stdinNotRead(t *testing.T, r remote.Runner) {
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"true"}, Stdin: strings.NewReader(strings.Repeat("x", 40<<10))}))
}

// everyByte returns each byte value some times, and random ones.
func everyByte(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range min(256, n) {
		b[i] = byte(i)
	}
	return b
}

func binaryData(t *testing.T, r remote.Runner) {
	data := everyByte(40 << 10)
	var out, stderr bytes.Buffer
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: bytes.NewReader(data), Stdout: &out}))
	assert.True(t, bytes.Equal(data, out.Bytes()), "stdin and stdout")
	require.NoError(t, r.Run(t.Context(), remote.Cmd{Args: []string{"sh", "-c", "cat >&2"}, Stdin: bytes.NewReader(data), Stderr: &stderr}))
	assert.True(t, bytes.Equal(data, stderr.Bytes()), "stderr")
}

func outputsApart(t *testing.T, r remote.Runner) {
	var out, stderr bytes.Buffer
	cmd := remote.Cmd{Args: []string{"sh", "-c", "echo one; echo two >&2; echo three"}, Stdout: &out, Stderr: &stderr}
	require.NoError(t, r.Run(t.Context(), cmd))
	assert.Equal(t, "one\nthree\n", out.String())
	assert.Equal(t, "two\n", stderr.String())

	var both bytes.Buffer // one writer for both must not be written to at once
	cmd.Stdout, cmd.Stderr = &both, &both
	require.NoError(t, r.Run(t.Context(), cmd))
	assert.Len(t, both.String(), len("one\ntwo\nthree\n"))
}

func longOutput(t *testing.T, r remote.Runner) {
	const lines = 8000
	script := `i=0; while [ $i -lt "$1" ]; do echo "line $i, and some more to make it long"; i=$((i+1)); done`
	out, err := remote.Output(t.Context(), r, "sh", "-c", script, "sh", fmt.Sprint(lines))
	require.NoError(t, err)
	assert.Equal(t, lines, bytes.Count(out, []byte("\n")))
	assert.True(t, bytes.HasSuffix(out, fmt.Appendf(nil, "line %d, and some more to make it long\n", lines-1)))
}

// failing is a stream that cannot be read or written.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func failingStreams(t *testing.T, r remote.Runner) {
	broken := failing{errors.New("disk full")}
	for name, cmd := range map[string]remote.Cmd{
		"stdout": {Args: []string{"sh", "-c", "echo x"}, Stdout: broken},
		"stderr": {Args: []string{"sh", "-c", "echo x >&2"}, Stderr: broken},
		"stdin":  {Args: []string{"cat"}, Stdin: broken},
	} {
		assert.ErrorIs(t, r.Run(t.Context(), cmd), broken.err, name)
	}
	require.NoError(t, remote.Run(t.Context(), r, "true"), "the next command is not concerned")
}

func cancelRunning(t *testing.T, r remote.Runner) {
	require.NoError(t, remote.Run(t.Context(), r, "true")) // connected
	stop := errors.New("stopped by the user")
	for _, after := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var ended time.Time
		timer := time.AfterFunc(after, func() { ended = time.Now(); cancel(stop) })
		err := remote.Run(ctx, r, "sleep", "60")
		timer.Stop()
		assert.Less(t, time.Since(ended), promptly, "cancelled after %s", after)
		assert.ErrorIs(t, err, context.Canceled)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	var out bytes.Buffer
	err := r.Run(ctx, remote.Cmd{Args: []string{"sh", "-c", "cat; sleep 60"}, Stdin: blocking(t), Stdout: &out})
	assert.Less(t, time.Since(began), 100*time.Millisecond+promptly, "with an input that never comes")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, remote.Run(t.Context(), r, "true"), "the next command is not concerned")
}

// blocking returns a reader that blocks until the test ends.
func blocking(t *testing.T) readerFunc {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func([]byte) (int, error) {
		<-end
		return 0, errors.New("the test is over")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func cancelledBefore(t *testing.T, r remote.Runner) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	err := remote.Run(ctx, r, "sleep", "60")
	assert.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(began), promptly)
}

func sideBySide(t *testing.T, r remote.Runner) {
	const n = 24 // more than an SSH server's ten sessions
	var all sync.WaitGroup
	outs, errs := make([]string, n), make([]error, n)
	for i := range n {
		all.Go(func() {
			var out bytes.Buffer
			in := strings.NewReader(fmt.Sprint("input ", i))
			errs[i] = r.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: in, Stdout: &out})
			outs[i] = out.String()
		})
	}
	all.Wait()
	for i := range n {
		assert.NoError(t, errs[i])
		assert.Equal(t, fmt.Sprint("input ", i), outs[i])
	}
}

// folder returns the path of a folder that does not exist yet and is gone after
// the test.
func folder(t *testing.T, r remote.Runner) string {
	dir := fmt.Sprintf("/tmp/remotetest-%x", everyByte(264)[256:])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		assert.NoError(t, remote.Run(ctx, r, "rm", "-rf", dir))
	})
	return dir
}

func files(t *testing.T, r remote.Runner) {
	dir := folder(t, r)
	for name, content := range map[string][]byte{
		"text":             []byte("server: https://10.0.0.10:6443\n"),
		"a b/c'd/$HOME":    []byte("odd names"),
		"empty":            {},
		"binary":           everyByte(30 << 10),
		"looks like -flag": []byte("-n"),
	} {
		file := path.Join(dir, name)
		require.NoError(t, remote.WriteFile(t.Context(), r, file, content, 0o644))
		got, err := remote.ReadFile(t.Context(), r, file)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(content, got), name)
		there, err := remote.Exists(t.Context(), r, file)
		require.NoError(t, err)
		assert.True(t, there, name)
	}
	file := path.Join(dir, "text")
	require.NoError(t, remote.WriteFile(t.Context(), r, file, []byte("again"), 0o644))
	got, err := remote.ReadFile(t.Context(), r, file)
	require.NoError(t, err)
	assert.Equal(t, "again", string(got))

	out, err := remote.Output(t.Context(), r, "ls", "-A", dir)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"a b", "binary", "empty", "looks like -flag", "text"},
		strings.Split(strings.TrimSpace(string(out)), "\n"), "no temporary file stays")
}

func filePermissions(t *testing.T, r remote.Runner) {
	file := path.Join(folder(t, r), "rancher", "token")
	for _, perm := range []fs.FileMode{0o600, 0o644, 0o755, 0o400, 0o600} { // also for an existing file
		require.NoError(t, remote.WriteFile(t.Context(), r, file, []byte("x"), perm))
		out, err := remote.Output(t.Context(), r, "stat", "-c", "%a", file)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%o", perm), strings.TrimSpace(string(out)))
	}
	out, err := remote.Output(t.Context(), r, "stat", "-c", "%a", path.Dir(file))
	require.NoError(t, err)
	assert.Equal(t, "755", strings.TrimSpace(string(out)))
}

func fileErrors(t *testing.T, r remote.Runner) {
	dir := folder(t, r)
	_, err := remote.ReadFile(t.Context(), r, path.Join(dir, "none"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	there, err := remote.Exists(t.Context(), r, path.Join(dir, "none"))
	require.NoError(t, err)
	assert.False(t, there)

	file := path.Join(dir, "file")
	require.NoError(t, remote.WriteFile(t.Context(), r, file, nil, 0o644))
	_, err = remote.ReadFile(t.Context(), r, path.Join(file, "below"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = remote.ReadFile(t.Context(), r, dir)
	assert.Error(t, err)
	assert.NotErrorIs(t, err, fs.ErrNotExist)
	var exit *remote.ExitError
	assert.ErrorAs(t, remote.WriteFile(t.Context(), r, dir, []byte("x"), 0o644), &exit, "a folder is not replaced")
	assert.ErrorAs(t, remote.WriteFile(t.Context(), r, path.Join(file, "below"), []byte("x"), 0o644), &exit)
}

func sudo(t *testing.T, r remote.Runner) {
	root := remote.Sudo(r)
	out, err := remote.Output(t.Context(), root, "sh", "-c", `printf '%s' "$1"`, "sh", "it's $HOME")
	var exit *remote.ExitError
	if errors.As(err, &exit) && exit.Code == 127 {
		t.Skip("SKIPPED: the machine has no sudo")
	}
	require.NoError(t, err)
	assert.Equal(t, "it's $HOME", string(out))
	file := path.Join(folder(t, root), "file")
	require.NoError(t, remote.WriteFile(t.Context(), root, file, []byte("root's"), 0o600))
	got, err := remote.ReadFile(t.Context(), root, file)
	require.NoError(t, err)
	assert.Equal(t, "root's", string(got))
}
