package bastion

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"sync"

	"github.com/things-go/go-socks5"
)

// serveSOCKS serves CONNECT until ctx ends, and returns when all connections have ended.
func serveSOCKS(ctx context.Context, l net.Listener, dial DialFunc) {
	server := socks5.NewServer(
		socks5.WithDial(addressed(dial)),
		socks5.WithResolver(addresses{}),
		socks5.WithRule(&socks5.PermitCommand{EnableConnect: true}),
		socks5.WithLogger(socks5.NewLogger(log.New(io.Discard, "", 0))),
	)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		connections.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			_ = server.ServeConn(conn) // the client knows the reason
		})
	}
}

// addresses resolves nothing: the lab has no names, and asking a real resolver would use the
// network.
type addresses struct{}

var errNoNames = errors.New("the lab's network has no names: give an address")

func (addresses) Resolve(ctx context.Context, name string) (context.Context, net.IP, error) {
	if ip := net.ParseIP(name); ip != nil {
		return ctx, ip, nil
	}
	return ctx, nil, errNoNames
}

// addressed gives connections the kind of address that SOCKS answers need, whatever the
// dialler returns.
func addressed(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if _, ok := conn.LocalAddr().(*net.TCPAddr); ok {
			return conn, nil
		}
		return pipeEnd{conn}, nil
	}
}

type pipeEnd struct{ net.Conn }

func (pipeEnd) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }
