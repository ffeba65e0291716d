package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Server is an SSH server with public key authentication, commands, and TCP forwarding
// if allowed. It has no shells, terminals and subsystems.
type Server struct {
	// HostKey identifies the server.
	HostKey ssh.Signer

	// Authorize says whether user may log in with key: nil is yes. A nil Authorize refuses
	// every login.
	Authorize func(user string, key ssh.PublicKey) error

	// Exec runs a command line as the user's login shell would and returns its exit status, or
	// −n for a death by signal n. ctx ends when the client closes the session, sends a signal
	// ([ErrSignal]) or disconnects. A nil Exec returns 127 for every command.
	Exec func(ctx context.Context, user, command string, stdin io.Reader, stdout, stderr io.Writer) int

	// Forward opens a TCP connection for a client (direct-tcpip), which makes
	// the server a jump host. A nil Forward refuses.
	Forward func(ctx context.Context, network, addr string) (net.Conn, error)

	// MaxSessions is how many commands may run at a time on one connection; 0 is
	// 10, as for OpenSSH.
	MaxSessions int
}

// Serve serves connections from l, each in its own goroutine, until ctx ends or l fails. It
// closes l, and returns when all connections have ended. The end of ctx is not an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		connections.Go(func() { s.ServeConn(ctx, c) })
	}
}

// ServeConn serves one connection until the client or ctx ends it, and returns when
// everything on it has ended. It closes nc.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire := newBuffered(nc)
	defer wire.wait()
	defer func() { _ = wire.Close() }()
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()

	conn, channels, requests, err := ssh.NewServerConn(wire, s.config())
	if err != nil {
		return // the client knows why
	}
	c := &connection{Server: s, user: conn.User(), places: make(chan struct{}, s.maxSessions())}
	defer c.work.Wait()
	defer cancel()
	c.work.Go(func() { ssh.DiscardRequests(requests) }) // including keep-alives
	for ch := range channels {
		switch ch.ChannelType() {
		case "session":
			c.work.Go(func() { c.session(ctx, ch) })
		case "direct-tcpip":
			c.work.Go(func() { c.forward(ctx, ch) })
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "unknown channel type")
		}
	}
}

func (s *Server) config() *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if s.Authorize == nil {
				return nil, errors.New("nobody may log in")
			}
			return nil, s.Authorize(c.User(), key)
		},
	}
	config.AddHostKey(s.HostKey)
	return config
}

func (s *Server) maxSessions() int {
	if s.MaxSessions > 0 {
		return s.MaxSessions
	}
	return 10
}

// connection is one authenticated client.
type connection struct {
	*Server
	user   string
	places chan struct{} // one for each session
	work   sync.WaitGroup
}

// forward serves one direct-tcpip channel (RFC 4254, 7.2).
func (c *connection) forward(ctx context.Context, nch ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nch.ExtraData(), &to); err != nil {
		_ = nch.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	if c.Forward == nil {
		_ = nch.Reject(ssh.Prohibited, "administratively prohibited")
		return
	}
	far, err := c.Forward(ctx, "tcp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		_ = nch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer func() { _ = far.Close() }()
	near, requests, err := nch.Accept()
	if err != nil {
		return
	}
	defer func() { _ = near.Close() }()
	var both sync.WaitGroup
	both.Go(func() {
		ssh.DiscardRequests(requests) // until the client closed the channel
		_ = far.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(far, near)
		if half, ok := far.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(near, far)
	_ = near.CloseWrite()
	if _, half := far.(interface{ CloseWrite() error }); !half {
		_ = near.Close() // its end closes both directions
	}
	both.Wait()
}

// bufferedConn is a connection whose writes never wait for the reader. Both sides of SSH start by
// writing, which would deadlock over a net.Pipe. The windows of the SSH channels limit what is
// in flight.
type bufferedConn struct {
	net.Conn
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	changed *sync.Cond
	pending []byte
	err     error // why nothing more is accepted
}

// flushTime is how long a closing connection continues to write pending data.
const flushTime = time.Second

func newBuffered(c net.Conn) *bufferedConn {
	b := &bufferedConn{Conn: c, done: make(chan struct{})}
	b.changed = sync.NewCond(&b.mu)
	go b.flush()
	return b
}

func (b *bufferedConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	b.pending = append(b.pending, p...)
	b.changed.Signal()
	return len(p), nil
}

// flush writes pending data until the connection is closed or broken.
func (b *bufferedConn) flush() {
	defer close(b.done)
	defer func() { _ = b.Conn.Close() }()
	var out []byte
	for {
		b.mu.Lock()
		for len(b.pending) == 0 && b.err == nil {
			b.changed.Wait()
		}
		if len(b.pending) == 0 {
			b.mu.Unlock()
			return
		}
		out, b.pending = b.pending, out[:0]
		b.mu.Unlock()
		if _, err := b.Conn.Write(out); err != nil {
			b.stop(err)
			return
		}
	}
}

func (b *bufferedConn) stop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.changed.Signal()
}

// Close accepts nothing more, and closes the connection once pending data is written or could
// not be written for a while.
func (b *bufferedConn) Close() error {
	_ = b.SetWriteDeadline(time.Now().Add(flushTime))
	b.stop(net.ErrClosed)
	return nil
}

func (b *bufferedConn) wait() { <-b.done }
