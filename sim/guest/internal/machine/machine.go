package machine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/network"
)

// Machine is one virtual computer, on or off. It is safe for concurrent use.
type Machine struct {
	Config   Config
	software Software
	host     network.Host // that it is to its network

	mu     sync.Mutex
	faults Faults
	sys    *System // the running system, nil when off
	record record
	talks  atomic.Bool           // see Talks
	extra  map[string]*disk.Disk // contents of data disks that came without, by serial
	warm   bool                  // the next boot is a reboot
}

// Software is what runs on a machine. Rooms above this one bring it, so that none of
// them needs to know all others.
type Software struct {
	// Boot is the way from the power button to the last unit. It sets the kernel, calls
	// System.Ready when user space runs, and returns early when the power is cut.
	Boot func(s *System)
	// Halt ends what runs without a goroutine, after all those have ended.
	Halt func(s *System)
	// Program returns what a file does that stands for a program of that name; nil for
	// one that only stays, as a daemon, or does nothing.
	Program func(s *System, name string) Program
	// Service returns what a unit's command line does where it is not a program that runs
	// to its end; nil for all others.
	Service func(argv []string) Service
}

// Program is what a program does; it returns its exit status.
type Program func(ctx context.Context, p *Proc) int

// Service is what a unit's main process does until it is ready. It may leave something to
// be called when the unit is stopped.
type Service func(ctx context.Context, s *System, unit string, argv, env []string) (stop func(), code int)

// New returns a machine that is off. It answers on its network as host.
func New(cfg Config, software Software, host network.Host) *Machine {
	if cfg.Speed <= 0 {
		cfg.Speed = 1
	}
	cfg.MACs = slices.Clone(cfg.MACs)
	cfg.PCI = slices.Clone(cfg.PCI)
	for i := range cfg.PCI {
		if cfg.PCI[i].InfoROM == nil {
			cfg.PCI[i].InfoROM = &InfoROM{}
		}
	}
	cfg.Disks = slices.Clone(cfg.Disks)
	if cfg.Disk == nil {
		cfg.Disk = disk.New()
	}
	return &Machine{Config: cfg, software: software, host: host, faults: cfg.Faults, extra: map[string]*disk.Disk{}}
}

// SetFaults changes the faults; those of booting count from the next boot.
func (m *Machine) SetFaults(f Faults) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = f
}

// Faulty reports whether the machine has a fault now.
func (m *Machine) Faulty(is func(Faults) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return is(m.faults)
}

// Disk returns the OS disk.
func (m *Machine) Disk() *disk.Disk { return m.Config.Disk }

// Talks reports whether the machine has had its network up since it was switched on.
func (m *Machine) Talks() bool { return m.talks.Load() }

// System is what runs on the machine, nil when it is off.
func (m *Machine) System() *System {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sys
}

// Boot switches the machine on and returns; it comes up in the background. The
// context's values are kept, its end does not matter.
func (m *Machine) Boot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sys != nil {
		return fmt.Errorf("guest %s: already running", m.Config.Name)
	}
	s := NewSystem(ctx, m)
	s.warm, m.warm = m.warm, false
	m.sys = s
	m.talks.Store(false)
	s.wg.Go(func() { m.software.Boot(s) })
	return nil
}

// Kill cuts the power. When it returns, nothing of the guest runs any more.
func (m *Machine) Kill() {
	m.mu.Lock()
	s := m.sys
	m.sys = nil
	m.mu.Unlock()
	if s != nil {
		s.Halt()
	}
}

// Shutdown presses the power button.
func (m *Machine) Shutdown() error {
	s := m.System()
	if s == nil {
		return ErrOff
	}
	s.PowerOff(false)
	return nil
}
