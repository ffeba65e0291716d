package pvesim

import (
	"context"
	"net/netip"

	"github.com/cps-gpu/homelab/sim/guest"
)

// Sim is a simulated cluster of Proxmox VE hosts. It is safe for concurrent use.
type Sim struct {
	state      *state
	ownNetwork bool // made here, and closed here
}

// New starts a simulated cluster. Its goroutines end with Close. Under
// testing/synctest call it inside the bubble.
func New(m Model, o Options) *Sim {
	ownNetwork := o.Network == nil
	if ownNetwork {
		// Beside the addresses that examples give out by hand.
		o.Network = &guest.Network{DHCP: netip.MustParsePrefix("10.0.0.192/26")}
	}
	s := newState(m, o)
	if s.qemu == "" {
		s.qemu = s.usualQEMU()
	}
	if o.Hypervisor == nil {
		s.opts.Hypervisor = simulated{s}
	}
	s.access = newAccess(m)
	s.dispatch = dispatch
	s.populate(m)
	s.beginRounds()
	return &Sim{state: s, ownNetwork: ownNetwork}
}

// Token returns an API token that may do what building a cluster needs: that of
// the presets' operator, else the model's first.
func (s *Sim) Token() (id, secret string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if t, ok := s.state.access.tokens[operatorToken]; ok {
		return t.ID, t.Secret
	}
	return s.state.access.firstToken.ID, s.state.access.firstToken.Secret
}

// Network returns the network that the guests are plugged into.
func (s *Sim) Network() *guest.Network { return s.state.network }

// Close cuts the power: guests and tasks end, and so do all goroutines. Requests
// after it are dropped.
func (s *Sim) Close() {
	if s.state.powerOff() && s.ownNetwork {
		_ = s.state.network.Close() // never fails
	}
}

// HostShell lets those log in to a node as root by SSH who have one of the keys,
// each as in an authorized_keys file, instead of those who could before; without
// keys that stays. What they change there shows in the API: a
// reboot applies the command line and modprobe.d, and pveum, pvesm and pvesh do what
// the API does.
func (s *Sim) HostShell(ctx context.Context, node string, keys ...string) (HostShell, error) {
	return s.state.hostShell(ctx, node, keys...)
}
