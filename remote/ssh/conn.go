package ssh

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// conn is one connection that we were let in on.
type conn struct {
	*xssh.Client
	addr  string
	under net.Conn
	every time.Duration // between signs of life

	gone chan struct{}  // closed when the connection has ended
	work sync.WaitGroup // the connection's own goroutines

	users atomic.Int64 // sessions and tunnels in use
	used  atomic.Int64 // when it was last known to live, in Unix nanoseconds
}

func newConn(client *xssh.Client, under net.Conn, addr string, every time.Duration) *conn {
	c := &conn{Client: client, addr: addr, under: under, every: every, gone: make(chan struct{})}
	c.used.Store(time.Now().UnixNano())
	c.work.Go(func() {
		_ = client.Wait()
		close(c.gone)
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

// keepAlive closes a connection that is in use and gives no sign of life. One that
// nobody uses is left in peace: alive looks at it when it is wanted again.
func (c *conn) keepAlive() {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-tick.C:
			if c.users.Load() > 0 && !c.ping(c.every) {
				_ = c.under.Close()
			}
		}
	}
}

// alive reports whether the connection can be used; a connection that was idle for
// long is asked.
func (c *conn) alive(ctx context.Context) bool {
	select {
	case <-c.gone:
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
		return true // not known; whoever asks next finds out
	}
}

// ping asks the server for any answer at all.
func (c *conn) ping(patience time.Duration) bool {
	answered := make(chan bool, 1)
	c.work.Go(func() {
		// A name that servers do not know: "no" is an answer, too.
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
	case <-c.gone:
		return false
	}
}

// close ends the connection and everything on it.
func (c *conn) close() {
	_ = c.under.Close()
	c.work.Wait()
}
