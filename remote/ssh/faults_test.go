package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/faults"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// storing is a machine that understands one command, write.sh: it keeps what comes on
// standard input, if it is as much as was announced.
func storing(kept *atomic.Pointer[[]byte]) func(context.Context, string, string, io.Reader, io.Writer, io.Writer) int {
	return func(_ context.Context, _, command string, stdin io.Reader, _, stderr io.Writer) int {
		words := strings.Fields(strings.ReplaceAll(command, "'", ""))
		size, err := strconv.Atoi(words[len(words)-1])
		content, readErr := io.ReadAll(stdin)
		if err != nil || readErr != nil || len(content) != size {
			_, _ = io.WriteString(stderr, "cut short\n")
			return 1
		}
		kept.Store(&content)
		return 0
	}
}

// TestEveryReadAndWriteFails: wherever a connection breaks, from the first dial to the
// last byte, through a bastion or not, a file is whole or the error says that the network
// failed; and the next time it is whole.
func TestEveryReadAndWriteFails(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	for name, through := range map[string]bool{"directly": false, "through a bastion": true} {
		t.Run(name, func(t *testing.T) {
			faults.Each(t, []faults.Kind{faults.Lost, faults.Outage}, func(t *testing.T, f *faults.Faults, use func(*testing.T, faults.Case)) {
				// Not in virtual time: the library may leave a goroutine behind, see openChannel.
				onNetwork(t, func(t *testing.T, n *network, bastion, node ssh.Config) {
					var kept atomic.Pointer[[]byte] // nil: nothing
					n.machines[node.Addr].Exec = storing(&kept)
					node.Dial = f.Dial(node.Dial)
					if through {
						bastion.Dial = node.Dial
						jump := ssh.New(bastion)
						defer jump.Close()
						node.Dial = jump.Dial
					}
					c := ssh.New(node)
					defer c.Close()
					one := faults.Case{
						Do: func() error { return remote.WriteFile(t.Context(), c, "/etc/x", want, 0o600) },
						Done: func() string {
							if got := kept.Load(); got == nil || !bytes.Equal(*got, want) {
								return "the file did not arrive"
							}
							return ""
						},
						Failed: func(error) string {
							if got := kept.Load(); got != nil && !bytes.Equal(*got, want) {
								return "half of the file is kept"
							}
							return ""
						},
						Patient: true, // a connection that broke is made again
					}
					if through { // it is the bastion's connection that breaks, and with it all in it
						one.Told = func(err error) bool {
							var unreachable *ssh.UnreachableError
							var lost *ssh.LostError
							return errors.As(err, &unreachable) || errors.As(err, &lost)
						}
					}
					use(t, one)
				})
			})
		})
	}
}

// TestKnownHostsThatCannotBeRead: a file that cannot be read is an error, not an empty
// one, and stays as it is; who has nothing to write does not need it.
func TestKnownHostsThatCannotBeRead(t *testing.T) {
	key, _ := newKey(t)
	for name, make := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "in-it"), 0o755) },
		"a circle": func(path string) error { return os.Symlink(path, path) },
		"below a file": func(path string) error {
			return os.WriteFile(filepath.Dir(path), []byte("a file"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ssh", "known_hosts")
			if name != "below a file" {
				require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
			}
			require.NoError(t, make(path))
			k := ssh.NewKnownHosts(path)
			var where *fs.PathError
			_, err := k.Lookup("10.0.0.11:22")
			require.ErrorAs(t, err, &where)
			require.ErrorAs(t, k.Store("10.0.0.11:22", key.PublicKey()), &where)
			k.DeferWrites()
			require.NoError(t, k.Flush(), "there is nothing to write")
			k.DeferWrites()
			require.NoError(t, k.Store("10.0.0.11:22", key.PublicKey()))
			require.ErrorAs(t, k.Flush(), &where)
			assert.True(t, k.Unsaved(), "what could not be written is held")
		})
	}
}
