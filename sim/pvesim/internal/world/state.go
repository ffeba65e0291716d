package world

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
	"github.com/cps-gpu/homelab/sim/pvesim/internal/fault"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// State is all that there is of a simulated cluster: its hosts, their machines and
// storages, and what is kept of work and of those who ask.
type State struct {
	Options    Options
	Version    string
	QEMU       string
	Schema     *schema.Schema
	Network    *guest.Network
	Began      time.Time
	Done       chan struct{}   // closed by Close
	Life       context.Context // ends with done
	end        context.CancelFunc
	Goroutines sync.WaitGroup // every goroutine of ours

	// Mu guards everything below. Code runs with it held, and releases it only
	// while it waits (Worker.Sleep, Worker.Lock) or asks a guest (State.Outside).
	Mu           stateLock
	Hosts        map[string]*Host
	VMs          map[int]*VM
	Containers   map[int]model.Container
	Mappings     map[string]*Mapping
	Cards        map[string]*guest.InfoROM // what cards remember, by node and address
	Pools        map[string]*Pool
	Datacenter   map[string]string // datacenter.cfg
	NoQuorum     bool
	Round        time.Duration    // between two of a node's; 0 when lists are never behind
	Told         map[int]LastWord // by VMID
	ToldStorages map[string]bool  // by node/name
	Access       Access
	Locks        map[string]*fileLock

	// Dispatch does a call of the API: a client's, or one of our own.
	Dispatch func(*Call) (any, error)

	registers   map[string]map[string]map[string][]string // sections by file and ID, see Register
	Elsewhere   map[string]*Storage                       // configured for nodes that there are not
	Doors       map[int]*Door                             // to consoles, by port
	Consoles    map[string]string                         // tickets of consoles, with whom they let in where
	HARules     map[string]map[string]string
	HARuleOrder []string                     // by age
	Metrics     map[string]map[string]string // servers to send figures to, by ID
	Firewalls   map[string]*Firewall         // by the owner: cluster, node/NAME, vm/ID
	SDN         SDN

	Tasks     map[string]*Task
	TaskOrder []*Task // by start
	PIDs      int
	Random    *rand.Rand
	rules     []*Fault
	Requests  []*fault.Request
	Cert      *tls.Certificate
	Closed    bool
}

// New is what a model describes, before anything lives in it.
func New(m model.Model, o Options) *State {
	o = o.orUsual()
	s := &State{
		Options: o, Schema: schema.Load(), Network: o.Network, Began: time.Now(), Done: make(chan struct{}),
		Hosts: map[string]*Host{}, VMs: map[int]*VM{}, Containers: map[int]model.Container{}, Mappings: map[string]*Mapping{}, Pools: map[string]*Pool{},
		Locks: map[string]*fileLock{}, Tasks: map[string]*Task{}, PIDs: 1000, Random: rand.New(rand.NewPCG(1, 2)),
		Version: cmp.Or(m.Version, "9.2.11"), QEMU: m.QEMU, NoQuorum: m.NoQuorum,
	}
	s.Life, s.end = context.WithCancel(eternity{})
	s.SDN.describe(m)
	s.setIDRange(m.NextID)
	shared := map[string]*Storage{}
	for _, h := range m.Hosts {
		s.Hosts[h.Name] = newHost(h, shared)
	}
	for i, name := range s.Nodes() {
		s.Hosts[name].number = i
	}
	return s
}

// PowerOff ends all that runs, and reports whether it did.
func (s *State) PowerOff() bool {
	s.Mu.Lock()
	if s.Closed {
		s.Mu.Unlock()
		return false
	}
	s.Closed = true
	close(s.Done)
	s.end()
	var machines []interface{ Kill() }
	for _, v := range s.VMs {
		if v.Machine != nil {
			machines = append(machines, v.Machine)
		}
	}
	for _, h := range s.Hosts {
		if h.Shell != nil {
			machines = append(machines, h.Shell)
		}
	}
	s.Mu.Unlock()
	for _, m := range machines {
		m.Kill()
	}
	s.Goroutines.Wait()
	return true
}

// ErrClosed is what work ends with when the power is cut.
var ErrClosed = errors.New("pvesim: closed")

// Spawn runs f in a goroutine that Close waits for, with the lock held.
func (s *State) Spawn(f func()) {
	if s.Closed {
		return
	}
	s.Goroutines.Go(func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		f()
	})
}

// WithoutLock runs f without the lock: guests may take their time, and may call back.
func (s *State) WithoutLock(f func()) {
	s.Mu.Unlock()
	defer s.Mu.Lock()
	f()
}

// Wait releases the lock for a duration of the simulated world. It returns early with
// an error when the State is closed or stop is.
func (s *State) Wait(d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	if err := s.waitFor(nil, d, stop); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// waitFor releases the lock until done is closed. Where limit (0 is none) is over before, a
// duration of the simulated world, the error is context.DeadlineExceeded.
func (s *State) waitFor(done <-chan struct{}, limit time.Duration, stop <-chan struct{}) (err error) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(time.Duration(float64(limit) / s.Options.Speed))
		defer t.Stop()
		late = t.C
	}
	s.WithoutLock(func() {
		select {
		case <-done:
		case <-late:
			err = context.DeadlineExceeded
		case <-stop:
			err = ErrStopped
		case <-s.Done:
			err = ErrClosed
		}
	})
	return err
}

// eternity is the context that our own begins with: guests live as long as the
// cluster, not as the request that started them.
type eternity struct{}

func (eternity) Deadline() (time.Time, bool) { return time.Time{}, false }
func (eternity) Done() <-chan struct{}       { return nil }
func (eternity) Err() error                  { return nil }
func (eternity) Value(any) any               { return nil }

// IsNine reports whether we are Proxmox VE 9, which asks more than 8 does.
func (s *State) IsNine() bool { return !strings.HasPrefix(s.Version, "8.") }
