package sim

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// World is a network of machines.
type World struct {
	// Step is asked before each connection and request, and after the effect of each request. If it
	// returns an error the connection is refused, or the request or its answer lost. May be nil.
	Step func(what string) error

	mu       sync.Mutex
	machines map[string]*Machine // by address
	begun    map[string]int      // how often etcd began, by the cluster's id
}

// NewWorld returns an empty world.
func NewWorld() *World { return &World{machines: map[string]*Machine{}, begun: map[string]int{}} }

// Boot switches on a new machine at an address of the network.
func (w *World) Boot(address string) (*Machine, error) {
	key, err := maintenanceKey()
	if err != nil {
		return nil, err
	}
	m := &Machine{world: w, address: address, maintenance: key}
	m.log = fmt.Appendf(nil, "5,0,0,-;Linux version 6.18.9-talos\n4,812,9034112,-;[talos] server certificate issued "+
		`{"component": "controller-runtime", "controller": "runtime.MaintenanceServiceInformController", "fingerprint": "%s"}`+"\n", fingerprint(key))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[address] = m
	return m, nil
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
	m.world.mu.Lock()
	config, err := m.tls()
	if m.away > 0 {
		m.away--
		err = errAway
	}
	m.world.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("dial tcp %s:50000: %w", m.address, err)
	}
	l := bufconn.Listen(1 << 16)
	s := m.server(ctx, config)
	go func() { _ = s.Serve(once{l}) }()
	conn, err := l.DialContext(ctx)
	if err != nil {
		s.Stop()
		return nil, err
	}
	return &closing{Conn: conn, server: s}, nil
}

// once is a listener of one connection, whose server ends with it.
type once struct{ *bufconn.Listener }

// closing ends the server with its connection, so that nothing is left of either.
type closing struct {
	net.Conn
	server *grpc.Server
	once   sync.Once
}

func (c *closing) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.server.Stop)
	return err
}
