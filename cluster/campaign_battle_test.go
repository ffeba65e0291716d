package cluster_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// battle is a run under fire: all its ways out lead through it.
type battle struct {
	w      *world
	kill   context.CancelFunc
	dead   flagged
	met    flagged
	others sync.WaitGroup // what somebody else is doing
	wires  wires
	api    apiDoor
	armed  []*pvesim.Fault
}

// newBattle has the run of the world's next cluster go through it.
func newBattle(w *world, spec *spec.Spec, kill context.CancelFunc) *battle {
	b := &battle{w: w, kill: kill}
	b.wires = wires{b: b, names: map[string]string{}, passed: map[side]int{}, open: map[*cable]bool{}, gone: map[string]bool{}}
	for _, n := range spec.Machines() {
		b.wires.names[n.Address.Addr().String()+":22"] = n.Name
	}
	b.api = apiDoor{b: b, seen: map[[2]string]int{}}
	w.dial = b.wires.dial
	w.kubeTap = func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) { return b.api.ask(next, r) })
	}
	return b
}

// over takes all faults away: the next run has ways out of its own.
func (b *battle) over() {
	b.w.dial, b.w.kubeTap = nil, nil
	for _, f := range b.armed {
		f.Remove()
	}
	b.others.Wait()
}

// die ends the machine that the run is on: nothing goes out any more, what was
// connected is not, and nobody takes leave.
func (b *battle) die() {
	b.dead.Store(true)
	b.wires.cutAll()
	b.kill()
}

// flagged is a flag that is set once.
type flagged struct {
	mu  sync.Mutex
	set bool
}

func (f *flagged) Store(v bool) { f.mu.Lock(); defer f.mu.Unlock(); f.set = v }
func (f *flagged) Load() bool   { f.mu.Lock(); defer f.mu.Unlock(); return f.set }

// RoundTrip is the way to Proxmox: there is none from the moment the machine dies.
func (b *battle) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.alive(b.w.sim.Client().Transport, r)
}

// alive is a request of a machine that may be dead, or be so when the answer comes.
func (b *battle) alive(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if b.dead.Load() {
		unsent(r)
		return nil, io.ErrClosedPipe
	}
	res, err := next.RoundTrip(r)
	if err == nil && b.dead.Load() {
		_ = res.Body.Close()
		return nil, io.ErrClosedPipe
	}
	return res, err
}

// unsent closes the body of a request that goes nowhere.
func unsent(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// arm puts a fault in force.
func (b *battle) arm(a aimed) {
	switch a.fault.of {
	case ofSSH:
		b.wires.arm(a)
	case ofKubernetes:
		b.api.arm(a)
	default:
		b.armed = append(b.armed, b.armProxmox(a))
	}
}

func (b *battle) armProxmox(a aimed) *pvesim.Fault {
	names := &namer{}
	rule := a.fault.rule
	rule.Times = -1
	hit := false
	rule.When = func(r pvesim.Request) bool {
		if strings.HasPrefix(r.User, "neighbour@") {
			return false
		}
		now := names.name(r)
		switch {
		case a.fault.lasting && hit: // from this request on, for all
			return true
		case a.fault.again && hit: // each time that this is asked
			return now.same(a.at)
		case hit || now != a.at:
			return false
		}
		hit = true
		b.met.Store(true)
		if a.fault.kills {
			b.die()
		}
		if a.fault.meanwhile != nil {
			b.others.Go(func() { a.fault.meanwhile(b, names.ids()[a.at.vm]) })
			return false
		}
		return true
	}
	return b.w.sim.Fail(rule)
}

// as is the neighbour asking something of the host.
func (b *battle) as(method, path, form string) {
	req, err := http.NewRequest(method, "https://pve1:8006/api2/json"+path, strings.NewReader(form))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+neighbour.ID+"="+neighbour.Secret)
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.w.sim.Client().Transport.RoundTrip(req)
	if err == nil {
		_ = res.Body.Close()
	} else if !errors.Is(err, io.EOF) {
		panic(err)
	}
}
