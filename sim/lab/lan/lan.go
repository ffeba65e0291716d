package lan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
)

// Options configure the network.
type Options struct {
	Prefix  netip.Prefix // IPv4
	Gateway netip.Addr   // the lab's own address in it, which no guest has

	// Outward connects to guests' destinations outside Prefix, "tcp" and "udp"; nil refuses
	// all.
	Outward func(ctx context.Context, network, address string) (net.Conn, error)
	// Resolver is the DNS server, host:port, to which the gateway forwards guests' queries
	// through Outward; empty for none.
	Resolver string
}

// LAN is such a network. It runs until Close, and is safe for concurrent use.
type LAN struct {
	o      Options
	fabric fabric
	own    *station
	ctx    context.Context // ends with Close
	end    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// ours is the gateway's card: a locally administered address (bit 1 of the first byte).
func ours() mac { return mac{0x0a, 0x68, 0x6c, 0x61, 0x62, 0x01} }

// New returns a network with only the gateway in it. Its connections end with ctx; close it in
// any case.
func New(ctx context.Context, o Options) (*LAN, error) {
	if !o.Prefix.IsValid() || !o.Prefix.Addr().Is4() || !o.Prefix.Contains(o.Gateway) {
		return nil, fmt.Errorf("lan: the gateway %s is not in an IPv4 network %s", o.Gateway, o.Prefix)
	}
	own, err := newStation(ours(), netip.PrefixFrom(o.Gateway, o.Prefix.Bits()))
	if err != nil {
		return nil, fmt.Errorf("lan: %w", err)
	}
	l := &LAN{o: o, own: own}
	l.ctx, l.end = context.WithCancel(ctx)
	if err := l.gateway(); err != nil {
		l.end()
		own.close()
		return nil, fmt.Errorf("lan: %w", err)
	}
	p := l.fabric.join("")
	l.running.Go(func() {
		own.send(l.ctx, func(frame []byte) {
			if !l.usurps(frame) {
				l.fabric.forward(p, frame)
			}
		})
	})
	l.running.Go(func() { l.deliver(p) })
	return l, nil
}

// deliver passes a frame to the gateway.
func (l *LAN) deliver(p *port) {
	for {
		select {
		case frame := <-p.out:
			if !l.answersFor(frame) {
				continue
			}
			l.own.take(frame)
		case <-l.ctx.Done():
			return
		}
	}
}

// answersFor is false for pings to other addresses, because a gateway that accepts every
// address would answer them itself.
func (l *LAN) answersFor(frame []byte) bool {
	const ip, protocol, to, icmp = headerSize, headerSize + 9, headerSize + 16, 1
	if len(frame) < ip+20 || frame[12] != 0x08 || frame[13] != 0 || frame[protocol] != icmp {
		return true
	}
	return netip.AddrFrom4([4]byte(frame[to:to+4])) == l.o.Gateway
}

// usurps is true for ARP answers for addresses other than the gateway's own: a stack that
// accepts every address would answer for all of them.
func (l *LAN) usurps(frame []byte) bool {
	const operation, sender, reply = headerSize + 7, headerSize + 14, 2
	if len(frame) < sender+4 || frame[12] != 0x08 || frame[13] != 0x06 || frame[operation] != reply {
		return false
	}
	return netip.AddrFrom4([4]byte(frame[sender:sender+4])) != l.o.Gateway
}

// Close ends the network and all connections through it.
func (l *LAN) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	l.own.close()
	l.running.Wait()
}

// begin counts a task that runs until Close; false: the network is closed.
func (l *LAN) begin(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Go(do)
	}
	return !l.closed
}

// Plug puts a network card into a network, that of the gateway if its name is empty: what its
// guest sends and gets goes over conn, until that ends or the network does. It returns at once,
// and closes conn in the end.
func (l *LAN) Plug(conn net.Conn, network string) {
	p := l.fabric.join(network)
	gone, unplug := context.WithCancel(l.ctx)
	context.AfterFunc(gone, func() { _ = conn.Close() })
	read := func() {
		defer unplug()
		defer l.fabric.leave(p)
		for in := bufio.NewReaderSize(conn, maxFrame); ; {
			frame, err := readFrame(in)
			if err != nil {
				return
			}
			if frame != nil {
				l.fabric.forward(p, frame)
			}
		}
	}
	write := func() {
		defer unplug()
		for {
			select {
			case frame := <-p.out:
				if err := writeFrame(conn, frame); err != nil {
					return
				}
			case <-gone.Done():
				return
			}
		}
	}
	if !l.begin(write) || !l.begin(read) {
		l.fabric.leave(p)
		unplug()
	}
}

// Dial connects the gateway to a guest, e.g. to "10.0.0.11:22". Errors are those of a
// machine in that network: ECONNREFUSED, EHOSTUNREACH after three seconds without an
// answer to ARP, ENETUNREACH for other networks.
func (l *LAN) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp" && network != "tcp4" {
		return nil, fmt.Errorf("dial %s %s: only TCP, and addresses instead of names", network, address)
	}
	if !to.Addr().Is4() || !l.o.Prefix.Contains(to.Addr()) {
		return nil, refusal(to, syscall.ENETUNREACH)
	}
	conn, err := gonet.DialContextTCP(ctx, l.own.stack, at(to), ipv4.ProtocolNumber)
	if err != nil {
		return nil, failure(to, err)
	}
	return conn, nil
}

func at(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpAddr(a.Addr()), Port: a.Port()}
}

func refusal(to netip.AddrPort, errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: os.NewSyscallError("connect", errno)}
}

// failure converts the stack's errors, which are text, to errno values.
func failure(to netip.AddrPort, err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	for _, known := range []struct {
		said  tcpip.Error
		errno syscall.Errno
	}{
		{&tcpip.ErrConnectionRefused{}, syscall.ECONNREFUSED}, {&tcpip.ErrConnectionReset{}, syscall.ECONNRESET},
		{&tcpip.ErrHostUnreachable{}, syscall.EHOSTUNREACH}, {&tcpip.ErrTimeout{}, syscall.ETIMEDOUT},
		{&tcpip.ErrNetworkUnreachable{}, syscall.ENETUNREACH},
	} {
		if op.Err.Error() == known.said.String() {
			return refusal(to, known.errno)
		}
	}
	return err
}

// join copies both directions until both have ended, one has broken, or ctx ends.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { _, _ = a.Close(), b.Close() })
	defer stop()
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok {
			_, _ = a.Close(), b.Close()
			return
		}
		_ = half.CloseWrite()
	}
	both.Go(func() { carry(a, b) })
	carry(b, a)
	both.Wait()
	_, _ = a.Close(), b.Close()
}

func portOf(n uint16) string { return strconv.Itoa(int(n)) }
