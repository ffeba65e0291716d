package lan

import "sync"

// mac is an Ethernet address.
type mac [6]byte

// group reports whether it is a multicast address; broadcast is one.
func (m mac) group() bool { return m[0]&1 != 0 }

func destination(frame []byte) mac { return mac(frame[:6]) }
func source(frame []byte) mac      { return mac(frame[6:12]) }

const (
	// queued is how many frames a port queues for a slow guest. Further frames are lost, as on
	// any switch, so that no guest blocks the others.
	queued = 1024
	// learnable is how many addresses the switch remembers.
	learnable = 4096
)

// port is a port of the switch.
type port struct {
	out     chan []byte
	network string // only ports of one network reach each other
}

// fabric is the switch itself: it learns addresses, and floods broadcasts and frames to
// unknown addresses within a network. The zero fabric is ready to use.
type fabric struct {
	mu     sync.Mutex
	ports  map[*port]bool
	learnt map[mac]*port
}

func (f *fabric) join(network string) *port {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ports == nil {
		f.ports, f.learnt = map[*port]bool{}, map[mac]*port{}
	}
	p := &port{out: make(chan []byte, queued), network: network}
	f.ports[p] = true
	return p
}

func (f *fabric) leave(p *port) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ports, p)
	for m, at := range f.learnt {
		if at == p {
			delete(f.learnt, m)
		}
	}
}

// forward forwards a frame of at least headerSize bytes, which must not change any more.
func (f *fabric) forward(from *port, frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ports[from] {
		return
	}
	if m := source(frame); !m.group() && (f.learnt[m] != nil || len(f.learnt) < learnable) {
		f.learnt[m] = from
	}
	if to := f.learnt[destination(frame)]; to != nil {
		from.put(to, frame)
		return
	}
	for p := range f.ports {
		from.put(p, frame)
	}
}

// put passes a frame on to another port of its network.
func (p *port) put(to *port, frame []byte) {
	if to == p || to.network != p.network {
		return
	}
	select {
	case to.out <- frame:
	default:
	}
}
