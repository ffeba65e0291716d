package remote_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/secret"
)

func TestSudoIsAPrefix(t *testing.T) {
	var ran []string
	r := remote.Sudo(remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		ran = cmd.Args
		return nil
	}))
	args := []string{"id", "-u"}
	require.NoError(t, remote.Run(t.Context(), r, args...))
	assert.Equal(t, []string{"sudo", "-n", "--", "id", "-u"}, ran)
	assert.Equal(t, []string{"id", "-u"}, args, "the caller's arguments are left alone")
	require.NoError(t, r.Run(t.Context(), remote.Cmd{}))
	assert.Empty(t, ran)
}

// sudoers is a machine with a sudo of a kind, in front of the programs of this machine.
type sudoers struct {
	password string
	free     func(program string) bool // whether a rule lets the user run it without the password
	ahead    int                       // how much it reads at once; as sudo-rs did until 0.2.7

	mu    sync.Mutex
	ran   [][]string
	wrong int // passwords that were tried
}

func (s *sudoers) Run(ctx context.Context, cmd remote.Cmd) error {
	s.mu.Lock()
	s.ran = append(s.ran, cmd.Args)
	s.mu.Unlock()
	fails := func(said string) error { return &remote.ExitError{Args: cmd.Args, Code: 1, Stderr: said + "\n"} }
	var program []string
	switch options := strings.Join(cmd.Args[:4], " "); {
	case strings.HasPrefix(options, "sudo -n"):
		program = cmd.Args[3:]
		if !s.free(program[0]) {
			return fails("sudo: a password is required")
		}
	case options == "sudo -S -k -p":
		program = cmd.Args[5:]
		if program[0] == "--" {
			program = program[1:]
		}
		input := cmd.Stdin
		for try := 1; !s.free(program[0]); try++ {
			line, rest, err := cutLine(input, s.ahead)
			input = rest
			if err == nil && line == s.password {
				break
			}
			s.mu.Lock()
			s.wrong++
			s.mu.Unlock()
			if err != nil || try == 3 {
				return fails("Sorry, try again.\nsudo: 1 incorrect password attempt")
			}
		}
		cmd.Stdin = input
	}
	cmd.Args = program
	return here(ctx, cmd)
}

// cutLine reads a line, byte by byte or with what comes after it.
func cutLine(input io.Reader, ahead int) (line string, rest io.Reader, err error) {
	if ahead > 0 {
		buffered := bufio.NewReaderSize(input, ahead)
		line, err = buffered.ReadString('\n')
		return strings.TrimSuffix(line, "\n"), input, err
	}
	var b [1]byte
	for b[0] != '\n' {
		if _, err = io.ReadFull(input, b[:]); err != nil {
			return "", input, err
		}
		line += string(b[:])
	}
	return line[:len(line)-1], input, nil
}

func none(string) bool { return false }

// What a command reads is its own input to the byte, no matter which rules sudo has, and the
// password is in no argument and in no error.
func TestSudoPasswordKeepsInput(t *testing.T) {
	const password = "right $(horse) 'x' \\"
	for name, s := range map[string]*sudoers{
		"asks always":     {free: none},
		"asks never":      {free: func(string) bool { return true }},
		"not for a shell": {free: func(p string) bool { return p == "sh" }},
		"not for cat":     {free: func(p string) bool { return p == "cat" }},
	} {
		s.password = password
		root := remote.SudoPassword(s, secret.New(password))
		var all sync.WaitGroup
		for _, input := range []string{"", "x", "\n", "\n\n", password + "\n", "one\ntwo\n\nthree", "\x00\xff\n", strings.Repeat("long line\n", 20000)} {
			all.Go(func() {
				var out bytes.Buffer
				assert.NoError(t, root.Run(t.Context(), remote.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader(input), Stdout: &out}), name)
				assert.True(t, out.String() == input, "%s: %.40q is %.40q", name, input, out.String())
			})
		}
		all.Wait()
		out, err := remote.Output(t.Context(), root, "cat")
		require.NoError(t, err)
		assert.Empty(t, out, name)
		err = remote.Run(t.Context(), root, "sh", "-c", "echo bad luck >&2; exit 3")
		assert.ErrorContains(t, err, `sh -c "echo bad luck >&2; exit 3": bad luck`, name)
		assert.NotContains(t, err.Error(), "IFS", name)
		require.NoError(t, root.Run(t.Context(), remote.Cmd{Args: []string{"true"}, Stdin: strings.NewReader("not read")}), name)
		assert.Zero(t, s.wrong, name)
		for _, args := range s.ran {
			assert.NotContains(t, strings.Join(args, " "), password, name)
		}
		asked := slices.DeleteFunc(s.ran, func(args []string) bool { return !slices.Equal(args, []string{"sudo", "-n", "-k", "true"}) })
		assert.Len(t, asked, 1, name)
	}
}

// A wrong password is tried once, alone, and no command runs. What could not be asked is asked again.
func TestSudoPasswordRefused(t *testing.T) {
	s := &sudoers{password: "right", free: none}
	root := remote.SudoPassword(s, secret.New("wrong"))
	for range 3 {
		_, err := remote.Exists(t.Context(), root, "/")
		var refused *remote.SudoError
		require.ErrorAs(t, err, &refused)
		assert.EqualError(t, err, "sudo refuses the user or the password: Sorry, try again. | sudo: 1 incorrect password attempt")
	}
	assert.Equal(t, [][]string{{"sudo", "-n", "-k", "true"}, {"sudo", "-S", "-k", "-p", "", "true"}}, s.ran)
	assert.Equal(t, 2, s.wrong, "the password, and the end of the input")

	s = &sudoers{password: "right", free: none}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root = remote.SudoPassword(s, secret.New("right"))
	require.ErrorIs(t, remote.Run(ctx, root, "true"), context.Canceled)
	require.NoError(t, remote.Run(t.Context(), root, "true"))

	assert.ErrorContains(t, remote.Run(t.Context(), remote.SudoPassword(s, secret.New("a\nb")), "true"), "it is one line")
	assert.ErrorContains(t, remote.Run(t.Context(), remote.SudoPassword(s, secret.Value{}), "true"), "sudo: a password is required")
}

// A sudo that reads ahead would take some of a command's input, so it is refused.
func TestSudoThatReadsAhead(t *testing.T) {
	s := &sudoers{password: "right", free: none, ahead: 8 << 10}
	err := remote.WriteFile(t.Context(), remote.SudoPassword(s, secret.New("right")), t.TempDir()+"/file", bytes.Repeat([]byte("\n"), 10000), 0o600)
	var refused *remote.SudoError
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "sudo takes more of its input than the password")
}
