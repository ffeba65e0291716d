package cluster_test

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// ofSSH are faults of the connections to the machines.
const ofSSH = "ssh"

// torn is what becomes of a connection at some byte.
type torn int

const (
	reset  torn = iota + 1
	silent      // packets are lost in both directions, and nobody says so
	gone        // reset, and the machine refuses every further connection
	flaky       // reset, and so are the next three, soon after their handshakes
)

// lineFaults are faults of connections. What is cut in the middle of a packet of SSH's
// is lost with all of that packet, so these cut commands, what is written to files, and
// answers.
func lineFaults() []fault {
	return []fault{
		{name: "ssh-crash", of: ofSSH, kills: true},
		{name: "ssh-cut", of: ofSSH, torn: reset},
		{name: "ssh-silent", of: ofSSH, torn: silent},
		{name: "ssh-gone", of: ofSSH, torn: gone},
		{name: "ssh-flaky", of: ofSSH, torn: flaky},
	}
}

// The directions of a connection, as targets name them.
const (
	sent = "sent"
	got  = "got"
)

// side is one direction of all connections to a machine.
type side struct{ direction, machine string }

// wires are the connections to the machines.
type wires struct {
	b      *battle
	names  map[string]string // address → machine
	mu     sync.Mutex
	passed map[side]int // bytes so far
	open   map[*cable]bool
	gone   map[string]bool
	armed  []*aimedLine
}

// aimedLine is a fault at the byte nth of a side.
type aimedLine struct {
	aimed
	hit   bool
	again int // how many more connections break, where the fault is flaky
}

// flakyAfter is how many bytes those send that break soon: a handshake's, and some.
const flakyAfter = 4000

func (l *wires) arm(a aimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = append(l.armed, &aimedLine{aimed: a, again: 3})
}

// targets are bytes of the connections so far, one of each step; of 0 none.
func (l *wires) targets(step int) []target {
	if step == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []target
	for w, bytes := range l.passed {
		for at := step / 2; at < bytes; at += step {
			out = append(out, target{of: ofSSH, method: w.direction, path: w.machine, vm: w.machine, nth: at})
		}
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method), a.nth-b.nth)
	})
	return out
}

func (l *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	machine := l.names[addr]
	l.mu.Lock()
	refused := l.b.dead.Load() || machine != "" && l.gone[machine]
	l.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := l.b.w.sim.Network().Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &cable{Conn: conn, of: l, machine: machine}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = true
	for _, a := range l.armed {
		if a.fault.torn == flaky && a.hit && a.at.path == machine && a.again > 0 {
			a.again--
			c.breaks = flakyAfter
		}
	}
	return c, nil
}

// cutAll ends every connection, as the end of a machine does.
func (l *wires) cutAll() {
	l.mu.Lock()
	var all []*cable
	for c := range l.open {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.tear()
	}
}

// pass says how many of n bytes get through, and what happens then; 0 is nothing.
func (l *wires) pass(c *cable, direction string, n int) (through int, then torn) {
	l.mu.Lock()
	w := side{direction, c.machine}
	before := l.passed[w]
	if c.machine != "" {
		l.passed[w] += n
	}
	c.bytes += n
	kills := false
	through = n
	for _, a := range l.armed {
		if a.hit || a.at.path != c.machine || a.at.method != direction || before+n <= a.at.nth {
			continue
		}
		a.hit = true
		l.b.met.Store(true)
		through, then, kills = a.at.nth-before, a.fault.torn, kills || a.fault.kills
		if then == gone {
			l.gone[c.machine] = true
		}
	}
	if c.breaks > 0 && c.bytes > c.breaks {
		through, then = 0, reset
	}
	l.mu.Unlock()
	if kills {
		l.b.die()
		return through, reset
	}
	return max(through, 0), then
}

// cable is one connection.
type cable struct {
	net.Conn
	of      *wires
	machine string // empty where the other end is none
	bytes   int    // in both directions
	breaks  int    // after so many bytes; 0: it does not

	torn, silent flagged
}

func (c *cable) Write(p []byte) (int, error) {
	if c.torn.Load() {
		return 0, c.isReset("write")
	}
	if c.silent.Load() {
		return len(p), nil
	}
	through, then := c.of.pass(c, sent, len(p))
	n, err := c.Conn.Write(p[:through])
	switch {
	case err != nil || then == 0:
		return n, err
	case then == silent:
		c.silent.Store(true)
		return len(p), nil
	}
	c.tear()
	return n, c.isReset("write")
}

func (c *cable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if c.torn.Load() {
			return 0, c.isReset("read")
		}
		if err != nil {
			return 0, err
		}
		if c.silent.Load() {
			continue // until somebody closes it
		}
		through, then := c.of.pass(c, got, n)
		switch {
		case then == silent:
			c.silent.Store(true)
		case then != 0:
			c.tear()
		}
		if through > 0 {
			return through, nil
		}
	}
}

func (c *cable) isReset(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: syscall.ECONNRESET}
}

// tear resets the connection. What was sent arrives.
func (c *cable) tear() {
	c.torn.Store(true)
	_ = c.Conn.Close()
}

func (c *cable) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
