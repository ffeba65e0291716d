package lan

import (
	"context"
	"errors"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	dnsPort  = 53
	dialTime = 30 * time.Second // of a connection outward
	udpIdle  = 90 * time.Second // after which nobody waits for an answer any more
	opening  = 512              // connections that are being made at once
)

// gateway lets the station answer for every address that guests reach through it. The stack
// refuses everything else: TCP with a reset, UDP with port unreachable.
func (l *LAN) gateway() error {
	s := l.own.stack
	if err := errors.Join(wrong(s.SetPromiscuousMode(nic, true)), wrong(s.SetSpoofing(nic, true))); err != nil {
		return err
	}
	if l.o.Outward != nil {
		s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, 0, opening, l.forwardTCP).HandlePacket)
		s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, l.forwardUDP).HandlePacket)
	}
	return nil
}

func wrong(err interface{ String() string }) error {
	if err == nil {
		return nil
	}
	return errors.New(err.String())
}

// target is the destination of what a guest sends to an address behind the gateway; empty if
// it is refused, as all addresses of this machine are.
func (l *LAN) target(id stack.TransportEndpointID) string {
	to := addrOf(id.LocalAddress)
	switch {
	case to == l.o.Gateway && id.LocalPort == dnsPort:
		return l.o.Resolver
	case l.o.Prefix.Contains(to), !to.IsGlobalUnicast():
		return ""
	}
	return net.JoinHostPort(to.String(), portOf(id.LocalPort))
}

func (l *LAN) dialOut(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, dialTime)
	defer cancel()
	return l.o.Outward(ctx, network, address)
}

// forwardTCP is called in a goroutine of its own.
func (l *LAN) forwardTCP(r *tcp.ForwarderRequest) {
	address := l.target(r.ID())
	if address == "" {
		r.Complete(true)
		return
	}
	far, err := l.dialOut("tcp", address)
	if err != nil {
		r.Complete(true)
		return
	}
	var wq waiter.Queue
	ep, failed := r.CreateEndpoint(&wq)
	r.Complete(failed != nil)
	if failed != nil {
		_ = far.Close()
		return
	}
	near := gonet.NewTCPConn(&wq, ep)
	if !l.begin(func() { join(l.ctx, near, far) }) {
		_, _ = near.Close(), far.Close()
	}
}

// forwardUDP must not block, because every packet passes it.
func (l *LAN) forwardUDP(r *udp.ForwarderRequest) bool {
	address := l.target(r.ID())
	if address == "" {
		return false
	}
	var wq waiter.Queue
	ep, failed := r.CreateEndpoint(&wq)
	if failed != nil {
		return false
	}
	near := gonet.NewUDPConn(&wq, ep)
	if !l.begin(func() { l.relay(near, address) }) {
		_ = near.Close()
	}
	return true
}

// relay carries datagrams until there are none for a while.
func (l *LAN) relay(near net.Conn, address string) {
	defer near.Close()
	far, err := l.dialOut("udp", address)
	if err != nil {
		return
	}
	defer far.Close()
	ctx, done := context.WithCancel(l.ctx)
	defer done()
	stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		carry(near, far, near)
		done()
	}()
	carry(far, near, far)
	done()
	<-answered
}

// carry copies datagrams; each gives both sides more time.
func carry(to, from, other net.Conn) {
	for b := make([]byte, 1<<16); ; {
		end := time.Now().Add(udpIdle)
		if err := errors.Join(from.SetReadDeadline(end), other.SetReadDeadline(end)); err != nil {
			return
		}
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
