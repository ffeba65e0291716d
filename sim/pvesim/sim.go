package pvesim

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Options say how a Sim behaves. The zero Options are those of real life.
type Options struct {
	// Speed divides every duration of the simulated world; 0 is 1. Under
	// testing/synctest leave it alone: virtual time costs nothing.
	Speed float64
	// Timing is how long things take; zero fields have the usual value.
	Timing Timing
	// StatusLag is how long ago /cluster/resources may have seen what it describes a VM:
	// its name, status and figures and whether it is a template, but not its tags, lock
	// and pool. 0 is ten seconds, the round of pvestatd on a real host; less is none.
	StatusLag time.Duration
	// CleanupLinger is how long `qm cleanup` holds the configuration's file lock
	// when a VM is started again within a second of its end.
	CleanupLinger time.Duration

	Internet   guest.Internet   // what hosts and guests download from; nil is guest.DefaultInternet
	Kubernetes guest.Kubernetes // makes control planes for guests that run K3s
	Network    *guest.Network   // where guests are plugged in; nil makes one, with a DHCP server
	Hypervisor Hypervisor       // makes what lives in VMs; nil is package guest
	Log        *slog.Logger     // what happens, at debug level; nil is nothing

	// Heard is told of each request once it is answered, in no particular order and by
	// several goroutines at once; nil is nobody.
	Heard func(Request)
	alarm *slog.Logger // for mistakes of our own: Log, or where there is none the program's

	// Lean keeps only the last of what is written down for tests (Requests, and
	// what guests say of themselves), for a Sim that runs for days.
	Lean bool
}

// Timing is how long the work of a host takes.
type Timing struct {
	Call         time.Duration // of pvedaemon, most calls that it answers; 20 ms
	Fork         time.Duration // until a worker's first line; 50 ms
	LinkedClone  time.Duration // a linked clone beside its disks; 700 ms
	LinkedDisk   time.Duration // each of its disks, under the storage's lock; 400 ms
	AllocateDisk time.Duration // an empty disk, under the storage's lock; 300 ms
	Start        time.Duration // of a VM; 2 s
	Stop         time.Duration // of a VM, by force; 1 s
	Destroy      time.Duration // of a VM; 1 s
	Configure    time.Duration // a change of configuration; 50 ms
	Upload       time.Duration // from the temporary file to the storage; 200 ms
	CopyRate     Size          // of full clones and imports, per second; 500 MiB
	DownloadRate Size          // of download-url, per second; 100 MiB
	PinRate      Size          // of memory, where devices are passed through, per second; 4 GiB
}

func (t Timing) orUsual() Timing {
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	set(&t.Call, 20*time.Millisecond)
	set(&t.Fork, 50*time.Millisecond)
	set(&t.LinkedClone, 700*time.Millisecond)
	set(&t.LinkedDisk, 400*time.Millisecond)
	set(&t.AllocateDisk, 300*time.Millisecond)
	set(&t.Start, 2*time.Second)
	set(&t.Stop, time.Second)
	set(&t.Destroy, time.Second)
	set(&t.Configure, 50*time.Millisecond)
	set(&t.Upload, 200*time.Millisecond)
	if t.CopyRate == 0 {
		t.CopyRate = 500 * MiB
	}
	if t.DownloadRate == 0 {
		t.DownloadRate = 100 * MiB
	}
	if t.PinRate == 0 {
		t.PinRate = 4 * GiB
	}
	return t
}

// Sim is a simulated cluster of Proxmox VE hosts. It is safe for concurrent use.
type Sim struct {
	opts       Options
	version    string
	qemu       string
	schema     *schema
	routes     *route
	network    *guest.Network
	ownNetwork bool // made here, and closed here
	began      time.Time
	done       chan struct{}   // closed by Close
	life       context.Context // ends with done
	end        context.CancelFunc
	running    sync.WaitGroup // every goroutine of ours

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

// host is a node at run time.
type host struct {
	Host
	number   int // among the hosts, by name
	devices  map[string]*PCIDevice
	storages map[string]*storage
	shell    *guest.Machine // where root logs in, once somebody wants to
	tells    time.Time      // when its pvestatd makes its next round
	daemon   daemon

	settings nodeSettings

	made   interfaces // what /etc/network/interfaces says; nil until somebody asks
	staged interfaces // what it shall say when the network is applied
}

// New starts a simulated cluster. Its goroutines end with Close. Under
// testing/synctest call it inside the bubble.
func New(m Model, o Options) *Sim {
	if o.Speed <= 0 {
		o.Speed = 1
	}
	o.Timing = o.Timing.orUsual()
	if o.Internet == nil {
		o.Internet = guest.DefaultInternet()
	}
	ownNetwork := o.Network == nil
	if ownNetwork {
		// Beside the addresses that examples give out by hand.
		o.Network = &guest.Network{DHCP: netip.MustParsePrefix("10.0.0.192/26")}
	}
	if o.alarm = o.Log; o.Log == nil {
		o.alarm = slog.Default()
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Sim{
		opts: o, schema: loadSchema(), network: o.Network, ownNetwork: ownNetwork, began: time.Now(), done: make(chan struct{}),
		hosts: map[string]*host{}, vms: map[int]*vm{}, mappings: map[string]*mapping{}, pools: map[string]*pool{},
		locks: map[string]*fileLock{}, tasks: map[string]*task{}, pids: 1000, random: rand.New(rand.NewPCG(1, 2)),
	}
	s.version, s.qemu = cmp.Or(m.Version, "9.2.11"), m.QEMU
	if s.qemu == "" {
		s.qemu = s.usualQEMU()
	}
	if o.Hypervisor == nil {
		s.opts.Hypervisor = simulated{s}
	}
	s.life, s.end = context.WithCancel(eternity{})
	s.routes = loadRoutes()
	s.access = newAccess(m)
	s.access.fill(m)
	s.noQuorum = m.NoQuorum
	s.setIDRange(m.NextID)
	shared := map[string]*storage{}
	for _, h := range m.Hosts {
		s.hosts[h.Name] = newHost(h, shared)
	}
	for i, name := range s.nodes() {
		s.hosts[name].number = i
	}
	s.populate(m)
	s.beginRounds()
	return s
}

func newHost(h Host, shared map[string]*storage) *host {
	h = freshHost(h)
	out := &host{Host: h, devices: map[string]*PCIDevice{}, storages: map[string]*storage{}}
	for i := range h.PCI {
		d := h.PCI[i]
		out.devices[d.Address] = &d
	}
	for _, st := range h.Storages {
		if st.Shared && shared[st.Name] != nil {
			out.storages[st.Name] = shared[st.Name]
			continue
		}
		one := &storage{Storage: st, host: h.Name, volumes: map[string]*volume{}}
		out.storages[st.Name] = one
		if st.Shared {
			one.host = ""
			shared[st.Name] = one
		}
	}
	return out
}

// nodes returns the nodes' names in order.
func (s *Sim) nodes() []string { return slices.Sorted(maps.Keys(s.hosts)) }

// Token returns an API token that may do what building a cluster needs: that of
// the presets' operator, else the model's first.
func (s *Sim) Token() (id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.access.tokens[operatorToken]; ok {
		return t.ID, t.Secret
	}
	return s.access.firstToken.ID, s.access.firstToken.Secret
}

// Network returns the network that the guests are plugged into.
func (s *Sim) Network() *guest.Network { return s.network }

// Close cuts the power: guests and tasks end, and so do all goroutines. Requests
// after it are dropped.
func (s *Sim) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
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
	if s.ownNetwork {
		_ = s.network.Close() // never fails
	}
}

var errClosed = errors.New("pvesim: closed")

// spawn runs f in a goroutine that Close waits for, with mu held.
func (s *Sim) spawn(f func()) {
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
func (s *Sim) outside(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
}

// wait releases mu for a duration of the simulated world. It returns early with
// an error when the Sim is closed or stop is.
func (s *Sim) wait(d time.Duration, stop <-chan struct{}) error {
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
func (s *Sim) until(done <-chan struct{}, limit time.Duration, stop <-chan struct{}) (err error) {
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
// Sim, whoever asked for their start.
type eternity struct{}

func (eternity) Deadline() (time.Time, bool) { return time.Time{}, false }
func (eternity) Done() <-chan struct{}       { return nil }
func (eternity) Err() error                  { return nil }
func (eternity) Value(any) any               { return nil }
