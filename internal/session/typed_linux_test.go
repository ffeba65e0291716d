package session

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cps-gpu/homelab/internal/console"
)

// terminal makes a pseudo terminal the standard input, and returns its other side.
func terminal(t *testing.T) (keys *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keys.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	in, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	stdin := os.Stdin
	os.Stdin = in
	t.Cleanup(func() {
		os.Stdin = stdin
		in.Close()
	})
	return keys
}

// types is a person who types an answer once something is printed.
type types struct {
	keys   *os.File
	answer string
}

func (p types) Write(b []byte) (int, error) {
	_, err := p.keys.WriteString(p.answer)
	return len(b), err
}

// What was typed before a question stood there is no answer to it, a whole line as little as the
// beginning of one; what is typed afterwards is.
func TestWhatWasTypedBeforeAQuestion(t *testing.T) {
	for _, before := range []string{"y\n", "y\ny\ny\n", "y"} {
		for answer, agreed := range map[string]bool{"n\n": false, "y\n": true} {
			keys := terminal(t)
			_, err := keys.WriteString(before)
			require.NoError(t, err)
			arrived := []unix.PollFd{{Fd: int32(keys.Fd()), Events: unix.POLLIN}} // its echo
			n, err := unix.Poll(arrived, 10_000)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			err = ask(t.Context(), &console.Console{Talk: types{keys, answer}}, "Go on? [y/N] ", "y", "yes")
			assert.Equal(t, agreed, err == nil, "%q, then %q: %v", before, answer, err)
		}
	}
}
