package ssh_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

func TestCancelEndsTheCommand(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *machine{
		"InProcess": func(t testing.TB, _ ...string) *machine { return inProcess(t) },
		"OpenSSH":   debian,
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t)
			if name == "OpenSSH" && m.user == "root" {
				t.Skip("SKIPPED: sshd(8) sends no signals to root's commands; run the tests as another user")
			}
			c := client(t, m.config())
			mark := t.TempDir() + "/ended"
			ctx, cancel := context.WithCancel(t.Context())
			out, in := io.Pipe()
			go func() {
				_, _ = io.ReadFull(out, make([]byte, 8))
				cancel()
			}()
			err := c.Run(ctx, remote.Cmd{Stdout: in, Args: []string{"sh", "-c", `trap 'echo TERM >"$1"; exit' TERM; echo started; sleep 30 & wait`, "sh", mark}})
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorContains(t, err, `sh -c "trap 'echo TERM`)
			require.EventuallyWithT(t, func(t *assert.CollectT) {
				b, err := remote.ReadFile(context.Background(), c, mark)
				assert.NoError(t, err)
				assert.Equal(t, "TERM\n", string(b))
			}, 5*time.Second, 20*time.Millisecond)
		})
	}
}

func TestReconnects(t *testing.T) {
	m := newMachine(t)
	m.listen(t)
	dials := make(chan net.Conn, 10)
	cfg := m.config()
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		dials <- c
		return c, err
	}
	c := client(t, cfg)
	require.NoError(t, remote.Run(t.Context(), c, "true"))
	require.NoError(t, remote.Run(t.Context(), c, "true"))
	require.Len(t, dials, 1, "one connection for both")
	_ = (<-dials).Close()
	require.NoError(t, remote.Run(t.Context(), c, "true"), "a new one, when the old has broken")

	broken := make(chan error, 1)
	started, in := io.Pipe()
	go func() {
		broken <- c.Run(context.Background(), remote.Cmd{Args: []string{"sh", "-c", "echo started; sleep 30"}, Stdout: in})
	}()
	_, err := io.ReadFull(started, make([]byte, 8))
	require.NoError(t, err)
	_ = (<-dials).Close()
	err = <-broken
	var lost *ssh.LostError
	require.ErrorAs(t, err, &lost)
	assert.ErrorContains(t, err, "the connection to "+m.addr+` broke while sh -c "echo started; sleep 30" ran; whether it finished is not known`)
	assert.Empty(t, dials, "a command that was started is not repeated")
	require.NoError(t, remote.Run(t.Context(), c, "true"))
}

func TestClose(t *testing.T) {
	m := inProcess(t)
	c := ssh.New(m.config())
	started, in := io.Pipe()
	broken := make(chan error, 1)
	go func() {
		broken <- c.Run(context.Background(), remote.Cmd{Args: []string{"sh", "-c", "echo started; sleep 30"}, Stdout: in})
	}()
	_, err := io.ReadFull(started, make([]byte, 8))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	assert.Error(t, <-broken)
	assert.ErrorIs(t, remote.Run(t.Context(), c, "true"), net.ErrClosed)
	require.NoError(t, c.Close())

	// While it connects.
	m = newMachine(t)
	m.addr = silent(t)
	c = ssh.New(m.config())
	go func() { broken <- remote.Run(context.Background(), c, "true") }()
	select {
	case err := <-broken:
		t.Fatal(err)
	case <-time.After(30 * time.Millisecond):
	}
	require.NoError(t, c.Close())
	assert.ErrorIs(t, <-broken, net.ErrClosed)
}

// TestNothingIsDialledOnceCancelled: what is done already is never started, and is the error.
func TestNothingIsDialledOnceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select takes any of its cases
		_, err := ssh.Dial(ctx, ssh.Config{Addr: "127.0.0.1:1", User: "ops"}) // and no keys, which is an error, too
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestDialCarriesAnyProtocol(t *testing.T) {
	m := debian(t)
	addr := each(t, func(c net.Conn) {
		b, _ := io.ReadAll(c) // to the end: half closing must arrive
		_, _ = io.WriteString(c, strings.ToUpper(string(b)))
		_ = c.Close()
	})
	c := client(t, m.config())
	nc, err := c.Dial(t.Context(), "tcp", addr)
	require.NoError(t, err)
	_, err = io.WriteString(nc, "hello")
	require.NoError(t, err)
	require.NoError(t, nc.(interface{ CloseWrite() error }).CloseWrite())
	b, err := io.ReadAll(nc)
	require.NoError(t, err)
	assert.Equal(t, "HELLO", string(b))
	require.NoError(t, nc.Close())
	_, err = nc.Write([]byte("x"))
	assert.Error(t, err)

	// What was written before a Close arrives.
	got := make(chan int, 1)
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = sink.Close() }()
	go func() {
		c, err := sink.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(c)
		got <- len(b)
	}()
	nc, err = c.Dial(t.Context(), "tcp", sink.Addr().String())
	require.NoError(t, err)
	_, err = nc.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, nc.Close())
	assert.Equal(t, 1<<20, <-got)
}
