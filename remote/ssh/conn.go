package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/converge"
)

// conn is one authenticated connection.
type conn struct {
	*xssh.Client
	addr  string
	wire  *wire
	every time.Duration // between keep-alives

	closed chan struct{}  // closed when the connection has ended
	work   sync.WaitGroup // the connection's own goroutines

	users   atomic.Int64 // commands and tunnels
	running atomic.Int64 // sessions
	opened  atomic.Int64 // sessions ever opened
	used    atomic.Int64 // time of the last sign of life, in Unix nanoseconds
}

func newConn(client *xssh.Client, under *wire, addr string, every time.Duration) *conn {
	c := &conn{Client: client, addr: addr, wire: under, every: every, closed: make(chan struct{})}
	c.used.Store(time.Now().UnixNano())
	c.work.Go(func() {
		_ = client.Wait()
		close(c.closed)
	})
	c.work.Go(c.keepAlive)
	return c
}

// use counts a user of the connection until the returned function is called.
func (c *conn) use() (done func()) {
	c.users.Add(1)
	return sync.OnceFunc(func() {
		c.used.Store(time.Now().UnixNano())
		c.users.Add(-1)
	})
}

// session opens a session. It retries a refused one while others open and close: the server
// may accept fewer than expected, and OpenSSH may not have noticed yet that the previous one
// has ended. Without others, five attempts are enough.
func (c *conn) session(ctx context.Context) (*xssh.Session, error) {
	pause := 10 * time.Millisecond
	for alone := 1; ; alone++ {
		before := c.opened.Load()
		session, err := openChannel(c, c.NewSession)
		if err == nil {
			c.opened.Add(1)
			c.running.Add(1)
			return session, nil
		}
		refused, ok := errors.AsType[*xssh.OpenChannelError](err)
		if !ok {
			return nil, fmt.Errorf("ssh: %s: %w: %w", c.addr, errNotStarted, c.wire.explain(err))
		}
		if c.running.Load() > 0 || c.opened.Load() != before {
			alone = 0
		}
		if alone >= 5 {
			return nil, fmt.Errorf("ssh: %s refuses to run commands (MaxSessions of its sshd_config, or an account for forwarding only): %w", c.addr, refused)
		}
		if converge.Pause(ctx, pause) != nil {
			return nil, interruptionError(ctx, "waiting for a session on "+c.addr)
		}
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// openChannel returns what open does, or an error when the connection has ended: a channel that is
// opened in the moment in which it breaks gets no answer, and the library waits for one forever (its
// mux adds the channel after it has dropped all, and its transport does not report that a write failed).
func openChannel[T any](c *conn, open func() (T, error)) (T, error) {
	type result struct {
		channel T
		err     error
	}
	done := make(chan result, 1)
	go func() {
		channel, err := open()
		done <- result{channel, err}
	}()
	select {
	case r := <-done:
		return r.channel, r.err
	case <-c.closed:
	}
	select {
	case r := <-done:
		return r.channel, r.err
	default:
		return *new(T), c.wire.explain(net.ErrClosed)
	}
}

// keepAlive closes a connection that is in use and does not answer. It does not check an idle
// one: alive does so before its next use.
func (c *conn) keepAlive() {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
			if c.users.Load() > 0 && !c.ping(c.every) {
				_ = c.wire.Close()
			}
		}
	}
}

// alive reports whether the connection can be used; it pings a connection that was idle for
// long.
func (c *conn) alive(ctx context.Context) bool {
	select {
	case <-c.closed:
		return false
	default:
	}
	idle := time.Since(time.Unix(0, c.used.Load()))
	if c.users.Load() > 0 || idle < c.every {
		return true
	}
	answered := make(chan bool, 1)
	c.work.Go(func() { answered <- c.ping(min(c.every, 5*time.Second)) })
	select {
	case ok := <-answered:
		return ok
	case <-ctx.Done():
		return true // not known; the next caller finds out
	}
}

// ping asks the server for any answer at all.
func (c *conn) ping(patience time.Duration) bool {
	answered := make(chan bool, 1)
	c.work.Go(func() {
		// An unknown request name: a refusal is an answer, too.
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err == nil
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case ok := <-answered:
		if ok {
			c.used.Store(time.Now().UnixNano())
		}
		return ok
	case <-timer.C:
		return false
	case <-c.closed:
		return false
	}
}

// close ends the connection and everything on it.
func (c *conn) close() {
	_ = c.wire.Close()
	c.work.Wait()
}
