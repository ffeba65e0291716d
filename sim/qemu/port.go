package qemu

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// port is where a machine is plugged into the network of pvesim: at the address that its
// agent reports, and to whatever listens there.
type port struct {
	run     *run
	o       Options
	network *guest.Network
	cards   map[string]string // netdev by MAC address, in lower case

	mu      sync.Mutex
	addr    netip.Addr
	netdev  string
	forward map[uint16]string // addresses on this machine, by port in the guest
}

func newPort(r *run, o Options, s shape) *port {
	p := &port{run: r, o: o, network: s.Network, cards: map[string]string{}}
	for _, c := range s.cards() {
		p.cards[strings.ToLower(c.mac)] = c.key
	}
	return p
}

// follow plugs the machine in whenever its agent comes up: it is another address then, as
// like as not.
func (p *port) follow() {
	for {
		select {
		case <-p.run.opened:
			p.find()
		case <-p.run.ctx.Done():
			return
		}
	}
}

// find asks the agent for the address until it has one.
func (p *port) find() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for p.run.listening.Load() {
		all, err := p.run.agent.interfaces()
		for _, i := range all {
			netdev := p.cards[strings.ToLower(i.MAC)]
			for _, a := range i.Addrs {
				if err == nil && netdev != "" && p.o.Network.Contains(a.Addr()) {
					p.plug(a.Addr(), netdev)
					return
				}
			}
		}
		select {
		case <-t.C:
		case <-p.run.ctx.Done():
			return
		}
	}
}

func (p *port) plug(addr netip.Addr, netdev string) {
	p.mu.Lock()
	p.addr, p.netdev, p.forward = addr, netdev, map[uint16]string{}
	p.mu.Unlock()
	p.network.Register(addr, p)
}

func (p *port) unplug() { p.network.Unregister(p) }

// refusedTime is how soon a port where nobody listens shows: the connection to this
// machine's end of it is made, and closed again.
const refusedTime = 300 * time.Millisecond

// Listen connects to a port of the guest, nil where nothing listens.
func (p *port) Listen(number uint16) guest.Handler {
	ctx, cancel := context.WithTimeout(p.run.ctx, answerTime)
	defer cancel()
	if p.o.LAN != nil {
		return p.dial(ctx, number)
	}
	at, err := p.hostAddress(ctx, number)
	if err != nil {
		return nil
	}
	there, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil
	}
	first := make([]byte, 1024)
	_ = there.SetReadDeadline(time.Now().Add(refusedTime)) // a socket takes one
	n, err := there.Read(first)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = there.Close()
		return nil
	}
	_ = there.SetReadDeadline(time.Time{})
	return func(ctx context.Context, conn net.Conn) { join(ctx, conn, there, first[:n]) }
}

// dial connects through the LAN, which knows where nobody listens.
func (p *port) dial(ctx context.Context, number uint16) guest.Handler {
	p.mu.Lock()
	at := netip.AddrPortFrom(p.addr, number).String()
	p.mu.Unlock()
	there, err := p.o.LAN.Dial(ctx, "tcp", at)
	if err != nil {
		return nil
	}
	return func(ctx context.Context, conn net.Conn) { join(ctx, conn, there, nil) }
}

// hostAddress is where on this machine a port of the guest is.
func (p *port) hostAddress(ctx context.Context, number uint16) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.forward[number]; at != "" {
		return at, nil
	}
	mine, err := freePort(ctx)
	if err != nil {
		return "", err
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(mine)).String()
	if err := p.run.monitor.line(ctx, "hostfwd_add %s tcp:%s-%s", p.netdev, at, netip.AddrPortFrom(p.addr, number)); err != nil {
		return "", err
	}
	p.forward[number] = at
	return at, nil
}

// join carries both directions until one end is gone or ctx ends.
func join(ctx context.Context, near, far net.Conn, first []byte) {
	stop := context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := near.Write(first); err == nil {
			_, _ = io.Copy(near, far)
		}
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	both.Wait()
}
