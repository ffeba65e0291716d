package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Handler serves one connection and returns when it has ended. It closes conn.
type Handler func(ctx context.Context, conn net.Conn)

// Host is what answers at an address of a [Network].
type Host interface {
	// Listen returns what serves a port, or nil when nothing listens there.
	Listen(port uint16) Handler
}

// Network is a virtual network, layers 2 and 3 in one: every address on it can
// be reached from every other. The zero Network is ready to use.
type Network struct {
	// DHCP is where machines without a static address get one; none by default.
	// It must not be changed once a machine has booted.
	DHCP netip.Prefix
	// Speed divides the waiting for hosts that do not answer; 0 is 1.
	Speed float64

	rooms    sync.Map // see Of
	mu       sync.Mutex
	hosts    map[netip.Addr]Host
	seen     map[netip.Addr]bool       // addresses that once answered: dialling them times out
	leases   map[string]netip.Addr     // by client identifier
	clusters map[string]Cluster        // by identifier on the servers' disks
	conns    map[Host]map[*conn]func() // open connections to a host, with what ends their handler
	nextPort uint16
	gone     chan struct{} // closed by Close; nil until somebody wants to know
	closed   bool
}

const (
	unreachableAfter = 3 * time.Second   // Linux gives up on ARP after three tries
	timeoutAfter     = 127 * time.Second // six SYN retries
)

// StateOf returns what a room of this house keeps of a network: a T that only it knows, empty
// at first.
func StateOf[T any](n *Network) *T {
	have, _ := n.rooms.LoadOrStore(reflect.TypeFor[T](), new(T))
	return have.(*T)
}

// Register makes h answer at addr. Where somebody else does so already, the
// newcomer wins, as the last gratuitous ARP does.
func (n *Network) Register(addr netip.Addr, h Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts, n.seen = map[netip.Addr]Host{}, map[netip.Addr]bool{}
	}
	n.hosts[addr], n.seen[addr] = h, true
}

// Unregister takes h from all its addresses and resets its connections.
func (n *Network) Unregister(h Host) {
	n.mu.Lock()
	var ends []func()
	for addr, other := range n.hosts {
		if other == h {
			delete(n.hosts, addr)
		}
	}
	for c, end := range n.conns[h] {
		ends = append(ends, c.reset, end)
	}
	delete(n.conns, h)
	n.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Release takes one address from h, and leaves its connections alone.
func Release(n *Network, addr netip.Addr, h Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[addr] == h {
		delete(n.hosts, addr)
	}
}

// Host returns who answers at addr, or nil.
func (n *Network) Host(addr netip.Addr) Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[addr]
}

// Dial connects to an address as "10.0.0.11:22". As on a real network, a closed
// port refuses at once, an address that nobody has is found unreachable after 3 s,
// and one that answered before only times out.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	h, to, err := Lookup(n, ctx, network, address)
	if err != nil {
		return nil, err
	}
	serve := h.Listen(uint16(to.Port))
	if serve == nil {
		return nil, RefusedError(to)
	}
	return n.connect(ctx, h, to, serve), nil
}

// Lookup finds who answers at an address as Dial does; to is nil where it is none.
func Lookup(n *Network, ctx context.Context, network, address string) (h Host, to *net.TCPAddr, err error) {
	addr, port, err := parseAddress(network, address)
	if err != nil {
		return nil, nil, err
	}
	to = net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, port))
	h, err = n.reach(ctx, addr, to)
	return h, to, err
}

// RefusedError is the error of a port at which nobody listens.
func RefusedError(to net.Addr) error { return dialError(to, syscall.ECONNREFUSED) }

func parseAddress(network, address string) (netip.Addr, uint16, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, 0, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return netip.Addr{}, 0, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("unknown port %q", portText)}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, 0, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return addr.Unmap(), uint16(port), nil
}

func dialError(to net.Addr, errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: &osError{errno}}
}

// osError prints like os.SyscallError and says of itself what net.Error wants to know.
type osError struct{ errno syscall.Errno }

func (e *osError) Error() string   { return "connect: " + e.errno.Error() }
func (e *osError) Unwrap() error   { return e.errno }
func (e *osError) Timeout() bool   { return e.errno == syscall.ETIMEDOUT }
func (e *osError) Temporary() bool { return e.Timeout() }

// reach finds who answers at addr, or waits as long as TCP would.
func (n *Network) reach(ctx context.Context, addr netip.Addr, to net.Addr) (Host, error) {
	n.mu.Lock()
	h, seen := n.hosts[addr], n.seen[addr]
	n.mu.Unlock()
	if h != nil {
		return h, nil
	}
	wait, errno := unreachableAfter, syscall.EHOSTUNREACH
	if seen {
		wait, errno = timeoutAfter, syscall.ETIMEDOUT
	}
	if n.Speed > 0 {
		wait = time.Duration(float64(wait) / n.Speed)
	}
	said := dialError(to, errno)
	// Go's dialer gives the socket the context's deadline, and the socket's mostly comes
	// first: a timeout, while the context is not over yet.
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		wait, said = time.Until(end)-time.Microsecond, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.ErrDeadlineExceeded}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil, said
	case <-n.end():
		return nil, dialError(to, syscall.ENETDOWN)
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: ctx.Err()}
	}
}

// end is closed when the network is.
func (n *Network) end() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone == nil {
		n.gone = make(chan struct{})
	}
	return n.gone
}

// connect makes the connection and lets serve have its other end, for as long as
// the host is there. The caller's context ends only the dialling.
func (n *Network) connect(ctx context.Context, h Host, to net.Addr, serve Handler) net.Conn {
	n.mu.Lock()
	n.nextPort++
	from := &net.TCPAddr{IP: net.IPv4(10, 255, 255, 254), Port: 32768 + int(n.nextPort%28000)}
	client, server := Pipe(from, to)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if n.conns == nil {
		n.conns = map[Host]map[*conn]func(){}
	}
	if n.conns[h] == nil {
		n.conns[h] = map[*conn]func(){}
	}
	n.conns[h][server] = cancel
	n.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			_ = server.Close()
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.conns[h], server)
		}()
		serve(ctx, server)
	}()
	return client
}

// Lease returns the address that DHCP gives to a client: the same one for the
// same identifier, anyone who sends it. The first 99 addresses stay free for
// static use where the network is large enough.
func Lease(n *Network, client string) (netip.Prefix, bool) {
	if !n.DHCP.IsValid() {
		return netip.Prefix{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.leases[client]; ok {
		return netip.PrefixFrom(addr, n.DHCP.Bits()), true
	}
	if n.leases == nil {
		n.leases = map[string]netip.Addr{}
	}
	addr := n.DHCP.Masked().Addr()
	if n.DHCP.Addr().Is4() && n.DHCP.Bits() <= 24 {
		for range 99 {
			addr = addr.Next()
		}
	}
	taken := map[netip.Addr]bool{}
	for _, a := range n.leases {
		taken[a] = true
	}
	for addr = addr.Next(); n.DHCP.Contains(addr.Next()); addr = addr.Next() {
		if !taken[addr] && n.hosts[addr] == nil {
			n.leases[client] = addr
			return netip.PrefixFrom(addr, n.DHCP.Bits()), true
		}
	}
	return netip.Prefix{}, false
}

// Close ends every control plane that guests of this network have formed, and pending
// connections to unused addresses.
func (n *Network) Close() error {
	gone := n.end()
	n.mu.Lock()
	clusters := n.clusters
	n.clusters = nil
	if !n.closed {
		n.closed = true
		close(gone)
	}
	n.mu.Unlock()
	for _, c := range clusters {
		c.Close()
	}
	return nil
}
