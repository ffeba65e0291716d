package pvesim

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// state is all that there is of a simulated cluster: its hosts, their machines and
// storages, and what is kept of work and of those who ask.
type state struct {
	opts    Options
	version string
	qemu    string
	schema  *schema
	network *guest.Network
	began   time.Time
	done    chan struct{}   // closed by Close
	life    context.Context // ends with done
	end     context.CancelFunc
	running sync.WaitGroup // every goroutine of ours

	// mu guards everything below. Code runs with it held, and releases it only
	// while it waits (worker.sleep, worker.lock) or asks a guest (Sim.outside).
	mu           stateLock
	hosts        map[string]*host
	vms          map[int]*vm
	mappings     map[string]*mapping
	pools        map[string]*pool
	options      map[string]string // datacenter.cfg
	noQuorum     bool
	round        time.Duration    // between two of a node's; 0 when lists are never behind
	told         map[int]lastWord // by VMID
	toldStorages map[string]bool  // by node/name
	access       access
	locks        map[string]*fileLock

	// dispatch does a call of the API: a client's, or one of our own.
	dispatch func(*call) (any, error)

	registers   map[string]map[string]map[string][]string // sections by file and ID, see register
	elsewhere   map[string]*storage                       // configured for nodes that there are not
	doors       map[int]*door                             // to consoles, by port
	consoles    map[string]string                         // tickets of consoles, with whom they let in where
	haRules     map[string]map[string]string
	haRuleOrder []string                     // by age
	metrics     map[string]map[string]string // servers to send figures to, by ID
	firewalls   map[string]*firewall         // by whose they are, see firewall
	sdn         sdnState

	tasks    map[string]*task
	order    []*task // by start
	pids     int
	random   *rand.Rand
	rules    []*Fault
	requests []*Request
	cert     *tls.Certificate
	closed   bool
}

// newState is what a model describes, before anything lives in it.
func newState(m Model, o Options) *state {
	o = o.orUsual()
	s := &state{
		opts: o, schema: loadSchema(), network: o.Network, began: time.Now(), done: make(chan struct{}),
		hosts: map[string]*host{}, vms: map[int]*vm{}, mappings: map[string]*mapping{}, pools: map[string]*pool{},
		locks: map[string]*fileLock{}, tasks: map[string]*task{}, pids: 1000, random: rand.New(rand.NewPCG(1, 2)),
		version: cmp.Or(m.Version, "9.2.11"), qemu: m.QEMU, noQuorum: m.NoQuorum,
	}
	s.life, s.end = context.WithCancel(eternity{})
	s.setIDRange(m.NextID)
	shared := map[string]*storage{}
	for _, h := range m.Hosts {
		s.hosts[h.Name] = newHost(h, shared)
	}
	for i, name := range s.nodes() {
		s.hosts[name].number = i
	}
	return s
}

// powerOff ends all that runs, and reports whether it did.
func (s *state) powerOff() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.closed = true
	close(s.done)
	s.end()
	var machines []interface{ Kill() }
	for _, v := range s.vms {
		if v.machine != nil {
			machines = append(machines, v.machine)
		}
	}
	for _, h := range s.hosts {
		if h.shell != nil {
			machines = append(machines, h.shell)
		}
	}
	s.mu.Unlock()
	for _, m := range machines {
		m.Kill()
	}
	s.running.Wait()
	return true
}

var errClosed = errors.New("pvesim: closed")

// spawn runs f in a goroutine that Close waits for, with mu held.
func (s *state) spawn(f func()) {
	if s.closed {
		return
	}
	s.running.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	})
}

// outside runs f without mu: guests may take their time, and may call back.
func (s *state) outside(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// wait releases mu for a duration of the simulated world. It returns early with
// an error when the Sim is closed or stop is.
func (s *state) wait(d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	if err := s.until(nil, d, stop); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// until lets go of mu until done is closed. Where limit (0 is none) is over before, a
// duration of the simulated world, the error is context.DeadlineExceeded.
func (s *state) until(done <-chan struct{}, limit time.Duration, stop <-chan struct{}) (err error) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(time.Duration(float64(limit) / s.opts.Speed))
		defer t.Stop()
		late = t.C
	}
	s.outside(func() {
		select {
		case <-done:
		case <-late:
			err = context.DeadlineExceeded
		case <-stop:
			err = errStopped
		case <-s.done:
			err = errClosed
		}
	})
	return err
}

// eternity is the context that our own begins with: guests live as long as the
// Sim, not as the request that started them.
type eternity struct{}

func (eternity) Deadline() (time.Time, bool) { return time.Time{}, false }
func (eternity) Done() <-chan struct{}       { return nil }
func (eternity) Err() error                  { return nil }
func (eternity) Value(any) any               { return nil }

// nine reports whether we are Proxmox VE 9, which asks more than 8 does.
func (s *state) nine() bool { return !strings.HasPrefix(s.version, "8.") }
