package kubesim

import (
	"context"
	"io"
	"log"
	"net"
	"sync"
)

// pipe is a net.Listener whose connections are in memory.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial makes a connection to the listener.
func (p *pipe) Dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipe) Close() error { p.once.Do(func() { close(p.done) }); return nil }

// Addr implements net.Listener.
func (p *pipe) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "tcp" }
func (addr) String() string  { return "kubernetes:6443" }

// silent drops the HTTP server's messages about clients that disconnect.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }
