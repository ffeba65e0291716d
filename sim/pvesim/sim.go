package pvesim

import (
	"context"
	"net/netip"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/guests"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hostshell"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/release"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

type (
	// Options say how a Sim behaves. The zero Options are those of real life.
	Options = world.Options
	// Timing is how long the work of a host takes.
	Timing = world.Timing
	// HostShell is where one logs in to a node as root.
	HostShell = hostshell.Shell
)

// Sim is a simulated cluster of Proxmox VE hosts. It is safe for concurrent use.
type Sim struct {
	state      *world.State
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
	s := world.New(m, o)
	if s.QEMU == "" {
		s.QEMU = release.UsualQEMU(s)
	}
	if o.Hypervisor == nil {
		s.Options.Hypervisor = simulatedHypervisor{s}
	}
	s.Access = access.New(m)
	s.Dispatch = dispatch
	guests.Populate(s, m)
	s.BeginRounds()
	return &Sim{state: s, ownNetwork: ownNetwork}
}

// Token returns an API token that may do what building a cluster needs: that of
// the presets' operator, else the model's first.
func (s *Sim) Token() (id, secret string) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	if t, ok := s.state.Access.Tokens[model.OperatorToken]; ok {
		return t.ID, t.Secret
	}
	return s.state.Access.FirstToken.ID, s.state.Access.FirstToken.Secret
}

// Network returns the network that the guests are plugged into.
func (s *Sim) Network() *guest.Network { return s.state.Network }

// Close cuts the power: guests and tasks end, and so do all goroutines. Requests
// after it are dropped.
func (s *Sim) Close() {
	if s.state.PowerOff() && s.ownNetwork {
		_ = s.state.Network.Close() // never fails
	}
}

// HostShell lets those log in to a node as root by SSH who have one of the keys,
// each as in an authorized_keys file, instead of those who could before; without
// keys that stays. What they change there shows in the API: a
// reboot applies the command line and modprobe.d, and pveum, pvesm and pvesh do what
// the API does.
func (s *Sim) HostShell(ctx context.Context, node string, keys ...string) (HostShell, error) {
	return hostshell.Login(s.state, ctx, node, keys...)
}
