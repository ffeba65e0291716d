package lan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
)

const prefix = "10.0.0.0/24"

func newLAN(t *testing.T, o Options) *LAN {
	t.Helper()
	before := runtime.NumGoroutine()
	o.Prefix, o.Gateway = netip.MustParsePrefix(prefix), netip.MustParseAddr("10.0.0.1")
	l, err := New(context.WithoutCancel(t.Context()), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		l.Close()
		for began := time.Now(); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				all := make([]byte, 1<<16)
				require.Fail(t, "goroutines are left", "%s", all[:runtime.Stack(all, true)])
			}
		}
	})
	return l
}

// machine is a guest: a TCP/IP stack that speaks frames over a socket, as QEMU does.
type machine struct {
	*station
	cable net.Conn
	rest  sync.WaitGroup
	end   context.CancelFunc
}

func plug(t *testing.T, l *LAN, addr string) *machine {
	t.Helper()
	a := netip.PrefixFrom(netip.MustParseAddr(addr), 24)
	b := a.Addr().As4()
	s, err := newStation(mac{0x02, 0, b[0], b[1], b[2], b[3]}, a)
	require.NoError(t, err)
	subnet, err := tcpip.NewSubnet(tcpip.AddrFrom4([4]byte{}), tcpip.MaskFromBytes(make([]byte, 4)))
	require.NoError(t, err)
	s.stack.AddRoute(tcpip.Route{Destination: subnet, Gateway: tcpAddr(l.o.Gateway), NIC: nic})
	ours, theirs := net.Pipe()
	m := &machine{station: s, cable: theirs}
	ctx, end := context.WithCancel(t.Context())
	m.end = end
	m.rest.Go(func() { s.send(ctx, func(frame []byte) { _ = writeFrame(theirs, frame) }) })
	m.rest.Go(func() {
		for {
			frame, err := readFrame(theirs)
			if err != nil {
				return
			}
			s.take(frame)
		}
	})
	l.Plug(ours, "")
	t.Cleanup(m.unplug)
	return m
}

// unplug pulls the cable, and only then switches off: nobody is told.
func (m *machine) unplug() {
	_ = m.cable.Close()
	m.end()
	m.close()
	m.rest.Wait()
}

func (m *machine) dial(ctx context.Context, addr string) (net.Conn, error) {
	to := netip.MustParseAddrPort(addr)
	conn, err := gonet.DialContextTCP(ctx, m.stack, at(to), ipv4.ProtocolNumber)
	if err != nil {
		return nil, failure(to, err)
	}
	return conn, nil
}

// serve answers each connection to a port with a greeting and then with what it is told.
func (m *machine) serve(t *testing.T, number uint16, greeting string) {
	t.Helper()
	ln, err := gonet.ListenTCP(m.stack, tcpip.FullAddress{NIC: nic, Port: number}, ipv4.ProtocolNumber)
	require.NoError(t, err)
	m.rest.Go(func() { echo(ln, greeting) })
	t.Cleanup(func() { _ = ln.Close() })
}

func echo(ln net.Listener, greeting string) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer c.Close()
			_, _ = io.WriteString(c, greeting)
			_, _ = io.Copy(c, c)
		})
	}
}

// tell sends a megabyte over a connection and wants it back behind the greeting.
func tell(t *testing.T, c net.Conn, greeting string) {
	t.Helper()
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var sending sync.WaitGroup
	sending.Go(func() {
		_, err := c.Write(want)
		assert.NoError(t, err)
		assert.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
	})
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	sending.Wait()
	assert.Equal(t, greeting, string(got[:len(greeting)]))
	assert.True(t, bytes.Equal(want, got[len(greeting):]), "%d bytes came back", len(got))
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestEverybodyReachesEverybody(t *testing.T) {
	l := newLAN(t, Options{})
	a, b := plug(t, l, "10.0.0.11"), plug(t, l, "10.0.0.12")
	a.serve(t, 22, "a")
	b.serve(t, 6443, "b")

	c, err := l.Dial(t.Context(), "tcp", "10.0.0.11:22")
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.11:22", c.RemoteAddr().String())
	tell(t, c, "a")
	c, err = a.dial(t.Context(), "10.0.0.12:6443")
	require.NoError(t, err)
	tell(t, c, "b")
	c, err = b.dial(t.Context(), "10.0.0.11:22")
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.12", c.LocalAddr().(*net.TCPAddr).IP.String())
	tell(t, c, "a")
}

func TestWhatCannotBeReached(t *testing.T) {
	l := newLAN(t, Options{})
	a := plug(t, l, "10.0.0.11")
	_, err := l.Dial(t.Context(), "tcp", "10.0.0.11:23")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.EqualError(t, err, "dial tcp 10.0.0.11:23: connect: connection refused")
	_, err = l.Dial(t.Context(), "tcp", "10.0.0.99:22")
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	_, err = l.Dial(t.Context(), "tcp", "192.0.2.1:22")
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	_, err = l.Dial(t.Context(), "tcp", "example.com:22")
	require.ErrorContains(t, err, "addresses instead of names")
	_, err = l.Dial(within(t, 50*time.Millisecond), "tcp", "10.0.0.98:22")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = a.dial(t.Context(), "10.0.0.1:53")
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the gateway serves nothing")

	_, err = New(t.Context(), Options{Prefix: netip.MustParsePrefix(prefix), Gateway: netip.MustParseAddr("10.0.1.1")})
	require.ErrorContains(t, err, "the gateway 10.0.1.1 is not in")
}

func (m *machine) datagrams(t *testing.T, to string) *gonet.UDPConn {
	t.Helper()
	there := at(netip.MustParseAddrPort(to))
	c, err := gonet.DialUDP(m.stack, nil, &there, ipv4.ProtocolNumber)
	require.NoError(t, err)
	return c
}

// datagram sends one and returns the answer.
func (m *machine) datagram(t *testing.T, to, text string) (string, error) {
	t.Helper()
	c := m.datagrams(t, to)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// What guests send to other networks is refused at once, and leaves nowhere.
func TestNothingGoesOutward(t *testing.T) {
	l := newLAN(t, Options{})
	a := plug(t, l, "10.0.0.11")
	for _, to := range []string{"192.0.2.1:443", "8.8.8.8:53", "10.43.0.1:443"} {
		_, err := a.dial(within(t, 2*time.Second), to)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, to)
	}
	for _, to := range []string{"192.0.2.1:53", "10.0.0.1:53"} {
		c := a.datagrams(t, to)
		refused := func() bool { _, err := io.WriteString(c, "who"); return err != nil } // the answer to an earlier one
		assert.Eventually(t, refused, 5*time.Second, 10*time.Millisecond, "port unreachable: %s", to)
		require.NoError(t, c.Close())
	}
}

// outside is everything that is asked for, on loopback.
type outside struct {
	tcp, udp string
	mu       sync.Mutex
	asked    []string
}

func (o *outside) dial(ctx context.Context, network, address string) (net.Conn, error) {
	o.mu.Lock()
	o.asked = append(o.asked, network+" "+address)
	o.mu.Unlock()
	if network == "udp" {
		return new(net.Dialer).DialContext(ctx, network, o.udp)
	}
	return new(net.Dialer).DialContext(ctx, network, o.tcp)
}

func TestOutward(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { echo(ln, "web") })
	packets, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	serving.Go(func() {
		for b := make([]byte, 100); ; {
			n, from, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(append([]byte("dns "), b[:n]...), from)
		}
	})
	defer func() { _, _ = ln.Close(), packets.Close(); serving.Wait() }()
	out := &outside{tcp: ln.Addr().String(), udp: packets.LocalAddr().String()}
	l := newLAN(t, Options{Outward: out.dial, Resolver: "127.0.0.53:53"})
	a := plug(t, l, "10.0.0.11")

	c, err := a.dial(t.Context(), "192.0.2.1:443")
	require.NoError(t, err)
	tell(t, c, "web")
	got, err := a.datagram(t, "192.0.2.2:123", "time")
	require.NoError(t, err)
	assert.Equal(t, "dns time", got)
	got, err = a.datagram(t, "10.0.0.1:53", "name")
	require.NoError(t, err)
	assert.Equal(t, "dns name", got)
	assert.Equal(t, []string{"tcp 192.0.2.1:443", "udp 192.0.2.2:123", "udp 127.0.0.53:53"}, out.asked)

	// Nothing of this machine's, and nobody who is not there.
	for _, to := range []string{"127.0.0.1:22", "169.254.169.254:80", "10.0.0.1:22", "0.0.0.0:22"} {
		_, err := a.dial(within(t, 5*time.Second), to)
		require.Error(t, err, to)
	}
	assert.Len(t, out.asked, 3)
	out.tcp = "127.0.0.1:1"
	_, err = a.dial(within(t, 5*time.Second), "192.0.2.1:443")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A guest may go at any time and come again; nobody else notices.
func TestAGuestThatGoesAway(t *testing.T) {
	l := newLAN(t, Options{})
	a, b := plug(t, l, "10.0.0.11"), plug(t, l, "10.0.0.12")
	a.serve(t, 22, "a")
	b.serve(t, 22, "b")
	c, err := l.Dial(t.Context(), "tcp", "10.0.0.11:22")
	require.NoError(t, err)
	a.unplug()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	_, err = io.ReadAll(c)
	require.Error(t, err, "as on a cable that was cut")
	require.NoError(t, c.Close())
	other, err := l.Dial(t.Context(), "tcp", "10.0.0.12:22")
	require.NoError(t, err)
	tell(t, other, "b")

	again := plug(t, l, "10.0.0.11")
	again.serve(t, 22, "again")
	c, err = l.Dial(within(t, 10*time.Second), "tcp", "10.0.0.11:22")
	require.NoError(t, err)
	tell(t, c, "again")
}

// A guest that takes nothing from its card holds nobody up.
func TestAGuestThatHangs(t *testing.T) {
	l := newLAN(t, Options{})
	ours, theirs := net.Pipe() // nobody reads from it
	defer theirs.Close()
	l.Plug(ours, "")
	require.NoError(t, writeFrame(theirs, broadcast(mac{2, 0, 0, 0, 0, 9})))
	a, b := plug(t, l, "10.0.0.11"), plug(t, l, "10.0.0.12")
	b.serve(t, 22, "b")
	for range 2 * queued {
		require.NoError(t, writeFrame(a.cable, unknown()))
	}
	c, err := a.dial(within(t, 10*time.Second), "10.0.0.12:22")
	require.NoError(t, err)
	tell(t, c, "b")
}

func broadcast(from mac) []byte {
	return append(append([]byte{255, 255, 255, 255, 255, 255}, from[:]...), 0x88, 0xb5)
}

// unknown is a frame for somebody whom the switch does not know.
func unknown() []byte {
	return append([]byte{2, 0, 0, 0, 0, 99, 2, 0, 0, 0, 0, 98}, 0x88, 0xb5)
}

func TestTooLateToPlug(t *testing.T) {
	l := newLAN(t, Options{})
	a := plug(t, l, "10.0.0.11")
	a.serve(t, 22, "a")
	open, err := l.Dial(t.Context(), "tcp", "10.0.0.11:22")
	require.NoError(t, err)
	l.Close()
	require.NoError(t, open.SetDeadline(time.Now().Add(5*time.Second)))
	_, err = io.ReadAll(open)
	late, ok := errors.AsType[net.Error](err)
	assert.False(t, ok && late.Timeout(), "the connection ends with the network")
	ours, theirs := net.Pipe()
	l.Plug(ours, "")
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the cable is cut")
	_, err = l.Dial(within(t, 5*time.Second), "tcp", "10.0.0.11:22")
	require.Error(t, err)
}

// Whatever comes over a guest's cable, the others still reach each other.
func FuzzFrames(f *testing.F) {
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	f.Add([]byte{0, 0})
	f.Add(frame(nil))
	f.Add(frame([]byte{1, 2, 3}))
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Add(append(frame(broadcast(mac{2, 9})), frame(unknown())...))
	f.Add(frame(append(broadcast(mac{2, 9})[:12], 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1))) // half an ARP request
	f.Add(frame(append(broadcast(mac{2, 9})[:12], 0x08, 0x00, 0x4f, 0, 0xff, 0xff, 0, 0, 0x20, 0, 64, 6)))
	f.Add(frame(append(broadcast(ours()), bytes.Repeat([]byte{0}, 60)...)))
	l, err := New(f.Context(), Options{Prefix: netip.MustParsePrefix(prefix), Gateway: netip.MustParseAddr("10.0.0.1")})
	require.NoError(f, err)
	f.Cleanup(l.Close)
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		l.Plug(ours, "")
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_ = theirs.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = theirs.Write(said)
		require.NoError(t, theirs.Close())
		a := plug(t, l, "10.0.0.11")
		a.serve(t, 22, "a")
		c, err := l.Dial(within(t, 10*time.Second), "tcp", "10.0.0.11:22")
		require.NoError(t, err)
		b := make([]byte, 1)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	})
}
