package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/test/bufconn"

	"github.com/cps-gpu/homelab/sim/guest"
)

// World is a network of machines.
type World struct {
	// Step is asked before each connection and request, and after the effect of each request. If it
	// returns an error the connection is refused, or the request or its answer lost. May be nil.
	Step func(what string) error

	// Kubernetes makes the control plane of a cluster whose etcd begins; nil: a kubeconfig leads nowhere.
	Kubernetes guest.Kubernetes

	mu       sync.Mutex
	machines map[string]*Machine    // by address
	begun    map[string]int         // how often etcd began, by the cluster's id
	planes   map[string]guest.Plane // by the cluster's id
	members  map[uint64]member      // of etcd

	schematics map[string][]byte // that the image factory was given, by their ids
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{machines: map[string]*Machine{}, begun: map[string]int{}, planes: map[string]guest.Plane{}, members: map[uint64]member{}, schematics: map[string][]byte{}}
}

// Boot switches on a new machine at an address of the network.
func (w *World) Boot(address string) (*Machine, error) {
	m := &Machine{world: w}
	return m, m.boot(address)
}

// boot is the start of a machine, which keeps its configuration and its data.
func (m *Machine) boot(address string) error {
	key, err := maintenanceKey()
	if err != nil {
		return err
	}
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	m.address, m.maintenance, m.serving = address, key, nil
	m.boots++
	m.log = fmt.Appendf(nil, "5,0,0,-;Linux version 6.18.9-talos\n4,812,9034112,-;[talos] server certificate issued "+
		`{"component": "controller-runtime", "controller": "runtime.MaintenanceServiceInformController", "fingerprint": "%s"}`+"\n", fingerprint(key))
	w.machines[address] = m
	return nil
}

// off takes a machine from the network.
func (m *Machine) off() {
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.machines[m.address] == m {
		delete(w.machines, m.address)
	}
	if p := m.plane(); p != nil && m.joined {
		p.Leave(m.name())
	}
	m.joined = false
}

// Begun is how often an etcd began, by the cluster's id. More than one for a cluster is two clusters.
func (w *World) Begun() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for id, n := range w.begun {
		out[id] = n
	}
	return out
}

// Machine is the one at an address; nil: there is none.
func (w *World) Machine(address string) *Machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[address]
}

// Dial connects to the API of the machine at an address.
func (w *World) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	if err := w.step("dial " + address); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	m := w.machines[host]
	w.mu.Unlock()
	if m == nil || port != "50000" {
		return nil, fmt.Errorf("dial tcp %s: connect: no route to host", address)
	}
	return m.accept(ctx)
}

func (w *World) step(what string) error {
	if w.Step == nil {
		return nil
	}
	return w.Step(what)
}

// accept serves one connection as the machine is now.
func (m *Machine) accept(ctx context.Context) (net.Conn, error) {
	config, err := m.answer()
	if err != nil {
		return nil, fmt.Errorf("dial tcp %s:50000: %w", m.address, err)
	}
	l := bufconn.Listen(1 << 16)
	s := m.server(ctx, config)
	go func() { _ = s.Serve(l) }()
	conn, err := l.DialContext(ctx)
	if err != nil {
		s.Stop()
		return nil, err
	}
	return &closing{Conn: conn, end: s.Stop}, nil
}

// answer is how the machine shows itself to a new connection, or why it refuses it.
func (m *Machine) answer() (*tls.Config, error) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	config, err := m.tls()
	if m.away > 0 {
		m.away--
		err = errAway
	}
	return config, err
}

// serve is accept for a connection of a network. It returns when that has ended.
func (m *Machine) serve(ctx context.Context, conn net.Conn) {
	config, err := m.answer()
	if err == nil {
		err = m.world.step("dial " + m.address)
	}
	if err != nil {
		_ = conn.Close()
		return
	}
	ended := make(chan struct{})
	s := m.server(ctx, config)
	go func() { _ = s.Serve(&once{conn: &closing{Conn: conn, end: func() { close(ended) }}, ended: ended}) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.Stop()
}

// pipe connects to the API server.
func pipe(ctx context.Context, conn net.Conn, p guest.Plane) {
	up, err := p.Dial(ctx)
	if err != nil {
		_ = conn.Close()
		return
	}
	end := context.AfterFunc(ctx, func() { _ = errors.Join(conn.Close(), up.Close()) })
	defer end()
	var both sync.WaitGroup
	for _, of := range [][2]net.Conn{{conn, up}, {up, conn}} {
		both.Go(func() {
			_, _ = io.Copy(of[0], of[1])
			_ = errors.Join(conn.Close(), up.Close())
		})
	}
	both.Wait()
}

// once is a listener of one connection, which ends with it.
type once struct {
	conn  net.Conn
	ended chan struct{}
	taken atomic.Bool
}

func (o *once) Accept() (net.Conn, error) {
	if !o.taken.Swap(true) {
		return o.conn, nil
	}
	<-o.ended
	return nil, net.ErrClosed
}
func (*once) Close() error     { return nil }
func (o *once) Addr() net.Addr { return o.conn.LocalAddr() }

// closing does something once, when its connection is closed.
type closing struct {
	net.Conn
	end  func()
	once sync.Once
}

func (c *closing) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.end)
	return err
}
