package network

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Pipe returns the two ends of a connection. Unlike net.Pipe it has a buffer, as
// TCP has: SSH's two sides both speak first. Nothing in it blocks other than on
// channels, so that it works under testing/synctest.
func Pipe(client, server net.Addr) (*conn, *conn) {
	up, down := newStream(), newStream()
	a := &conn{in: down, out: up, local: client, remote: server}
	b := &conn{in: up, out: down, local: server, remote: client}
	return a, b
}

// window is how much one side may send before the other has read.
const window = 256 << 10

// stream is one direction of a connection.
type stream struct {
	mu     sync.Mutex
	buf    []byte
	err    error         // what Read returns once buf is empty
	change chan struct{} // closed and renewed when something changed
}

func newStream() *stream { return &stream{change: make(chan struct{})} }

// wake must be called with mu held.
func (s *stream) wake() {
	close(s.change)
	s.change = make(chan struct{})
}

func (s *stream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.wake()
	}
}

// deadline is a time limit that can be moved while somebody waits.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	if d.moved != nil {
		close(d.moved)
	}
	d.moved = make(chan struct{})
}

func (d *deadline) get() (time.Time, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.at, d.moved
}

// wait waits for change or the deadline.
func (d *deadline) wait(change <-chan struct{}) error {
	at, moved := d.get()
	if at.IsZero() {
		select {
		case <-change:
		case <-moved:
		}
		return nil
	}
	left := time.Until(at)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-change:
	case <-moved:
	case <-t.C:
		return os.ErrDeadlineExceeded
	}
	return nil
}

type conn struct {
	in, out       *stream
	local, remote net.Addr
	read, write   deadline
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.in.mu.Lock()
		if len(c.in.buf) > 0 {
			n := copy(p, c.in.buf)
			c.in.buf = c.in.buf[n:]
			if len(c.in.buf) == 0 {
				c.in.buf = nil
			}
			c.in.wake()
			c.in.mu.Unlock()
			return n, nil
		}
		err, change := c.in.err, c.in.change
		c.in.mu.Unlock()
		if err != nil || len(p) == 0 {
			return 0, err
		}
		if err := c.read.wait(change); err != nil {
			return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	sent := 0
	for {
		c.out.mu.Lock()
		if c.out.err != nil {
			c.out.mu.Unlock()
			return sent, &net.OpError{Op: "write", Net: "tcp", Source: c.local, Addr: c.remote, Err: syscall.EPIPE}
		}
		if n := min(window-len(c.out.buf), len(p)-sent); n > 0 {
			c.out.buf = append(c.out.buf, p[sent:sent+n]...)
			sent += n
			c.out.wake()
		}
		change := c.out.change
		c.out.mu.Unlock()
		if sent == len(p) {
			return sent, nil
		}
		if err := c.write.wait(change); err != nil {
			return sent, &net.OpError{Op: "write", Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
		}
	}
}

// Close ends both directions; the other side reads what was sent, then EOF.
func (c *conn) Close() error {
	c.out.end(io.EOF)
	c.in.end(net.ErrClosed)
	return nil
}

// reset ends the connection the hard way, as a machine does that is gone. What the other side reads ends
// first: what serves here closes the connection when its own end is reset, and that would be an EOF.
func (c *conn) reset() {
	for _, s := range []*stream{c.out, c.in} {
		s.mu.Lock()
		s.buf = nil
		s.mu.Unlock()
		s.end(&net.OpError{Op: "read", Net: "tcp", Source: c.local, Addr: c.remote, Err: syscall.ECONNRESET})
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error  { c.read.set(t); return nil }
func (c *conn) SetWriteDeadline(t time.Time) error { c.write.set(t); return nil }
