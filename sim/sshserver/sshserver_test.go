package sshserver_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/sim/sshserver"
)

func newKey() xssh.Signer {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	signer, err := xssh.NewSignerFromKey(private)
	if err != nil {
		panic(err)
	}
	return signer
}

func ExampleServer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := &sshserver.Server{
		HostKey:   newKey(),
		Authorize: func(string, xssh.PublicKey) error { return nil },
		Exec: func(_ context.Context, user, command string, _ io.Reader, stdout, _ io.Writer) int {
			_, _ = fmt.Fprintf(stdout, "%s ran %s", user, command)
			return 0
		},
	}
	near, far := net.Pipe()
	go server.ServeConn(ctx, far)
	client := connect(near, server)
	session, err := client.NewSession()
	if err != nil {
		panic(err)
	}
	out, err := session.Output("uname -r")
	fmt.Println(string(out), err)
	_ = client.Close()
	// Output:
	// u ran uname -r <nil>
}

// connect logs in over a connection.
func connect(over net.Conn, s *sshserver.Server) *xssh.Client {
	conn, channels, requests, err := xssh.NewClientConn(over, "node:22", &xssh.ClientConfig{
		User: "u", Auth: []xssh.AuthMethod{xssh.PublicKeys(newKey())}, HostKeyCallback: xssh.FixedHostKey(s.HostKey.PublicKey()),
	})
	if err != nil {
		panic(err)
	}
	return xssh.NewClient(conn, channels, requests)
}

// serve starts a server on a loopback port, and returns how to end it.
func serve(t *testing.T, s *sshserver.Server) (addr string, end func() error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	return l.Addr().String(), func() error {
		cancel()
		return <-ended
	}
}

func dial(t *testing.T, s *sshserver.Server, addr string) *xssh.Client {
	c, err := xssh.Dial("tcp", addr, &xssh.ClientConfig{
		User: "u", Auth: []xssh.AuthMethod{xssh.PublicKeys(newKey())}, HostKeyCallback: xssh.FixedHostKey(s.HostKey.PublicKey()),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func anybody(string, xssh.PublicKey) error { return nil }

func TestServerEndsWithItsContext(t *testing.T) {
	stopped := make(chan error, 1)
	s := &sshserver.Server{HostKey: newKey(), Authorize: anybody, Exec: func(ctx context.Context, _, _ string, _ io.Reader, _, _ io.Writer) int {
		<-ctx.Done()
		stopped <- ctx.Err()
		return 1
	}}
	addr, end := serve(t, s)
	session, err := dial(t, s, addr).NewSession()
	require.NoError(t, err)
	require.NoError(t, session.Start("wait"))
	require.NoError(t, end())
	assert.Error(t, <-stopped, "Serve returns after what it runs has ended")
	assert.Error(t, session.Wait())
}

func TestServerRefuses(t *testing.T) {
	s := &sshserver.Server{HostKey: newKey(), Authorize: anybody, MaxSessions: 2}
	addr, end := serve(t, s)
	defer func() { require.NoError(t, end()) }()
	c := dial(t, s, addr)

	_, err := c.Dial("tcp", "127.0.0.1:1")
	var refused *xssh.OpenChannelError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, xssh.Prohibited, refused.Reason, "no Forward")

	session, err := c.NewSession()
	require.NoError(t, err)
	assert.Error(t, session.RequestPty("xterm", 24, 80, nil))
	assert.Error(t, session.Setenv("A", "b"))
	assert.Error(t, session.RequestSubsystem("sftp"))
	out, err := session.CombinedOutput("anything")
	var exit *xssh.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 127, exit.ExitStatus(), "no Exec")
	assert.Equal(t, "this machine knows no command\n", string(out))

	for range 2 {
		_, err := c.NewSession()
		require.NoError(t, err)
	}
	_, err = c.NewSession()
	require.ErrorAs(t, err, &refused, "MaxSessions")

	_, _, err = c.OpenChannel("x11", nil)
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, xssh.UnknownChannelType, refused.Reason)

	nobody := &sshserver.Server{HostKey: s.HostKey}
	addr, endNobody := serve(t, nobody)
	_, err = xssh.Dial("tcp", addr, &xssh.ClientConfig{User: "u", Auth: []xssh.AuthMethod{xssh.PublicKeys(newKey())},
		HostKeyCallback: xssh.FixedHostKey(s.HostKey.PublicKey())})
	assert.ErrorContains(t, err, "unable to authenticate", "no Authorize")
	require.NoError(t, endNobody())
}

func TestServerStopsWhatTheClientLeft(t *testing.T) {
	for name, leave := range map[string]func(*xssh.Client, *xssh.Session) error{
		"closed session":   func(_ *xssh.Client, s *xssh.Session) error { return s.Close() },
		"signal":           func(_ *xssh.Client, s *xssh.Session) error { return s.Signal(xssh.SIGTERM) },
		"broke connection": func(c *xssh.Client, _ *xssh.Session) error { return c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			running, stopped := make(chan struct{}), make(chan struct{})
			s := &sshserver.Server{HostKey: newKey(), Authorize: anybody, Exec: func(ctx context.Context, _, _ string, _ io.Reader, _, _ io.Writer) int {
				close(running)
				<-ctx.Done()
				close(stopped)
				return -15
			}}
			addr, end := serve(t, s)
			c := dial(t, s, addr)
			session, err := c.NewSession()
			require.NoError(t, err)
			require.NoError(t, session.Start("wait"))
			<-running
			require.NoError(t, leave(c, session))
			<-stopped
			if name == "signal" {
				var exit *xssh.ExitError
				require.ErrorAs(t, session.Wait(), &exit)
				assert.Equal(t, "TERM", exit.Signal())
			}
			require.NoError(t, end())
		})
	}
}

// TestServerForwardsOverPipes: a target without half-closing, in virtual time, leaves
// nothing behind however its end comes.
func TestServerForwardsOverPipes(t *testing.T) {
	hostKey := newKey()
	for _, ends := range []string{"client", "target"} {
		t.Run(ends, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := make(chan net.Conn, 1)
				s := &sshserver.Server{HostKey: hostKey, Authorize: anybody, Forward: func(_ context.Context, _, addr string) (net.Conn, error) {
					if addr != "10.0.0.1:6443" {
						return nil, errors.New("no route to host")
					}
					near, far := net.Pipe()
					target <- far
					return near, nil
				}}
				near, far := net.Pipe()
				go s.ServeConn(t.Context(), far)
				client := connect(near, s)
				_, err := client.DialContext(t.Context(), "tcp", "10.0.0.2:6443")
				assert.ErrorContains(t, err, "no route to host")
				c, err := client.DialContext(t.Context(), "tcp", "10.0.0.1:6443")
				require.NoError(t, err)
				far = <-target
				go func() { _, _ = io.WriteString(far, "hello") }()
				b := make([]byte, 5)
				_, err = io.ReadFull(c, b)
				require.NoError(t, err)
				assert.Equal(t, "hello", string(b))
				if ends == "client" {
					require.NoError(t, c.Close())
					_, err = far.Read(b)
				} else {
					require.NoError(t, far.Close())
					_, err = c.Read(b)
				}
				assert.ErrorIs(t, err, io.EOF)
				time.Sleep(time.Hour)
				_ = c.Close() // the other end may have closed it
				require.NoError(t, client.Close())
			})
		})
	}
}
