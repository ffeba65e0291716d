package machine

import (
	"net/netip"
	"slices"
)

// Address is the guest's first address on a network.
func (s *System) Address() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.ifaces {
		for _, a := range i.Addrs {
			if !a.Addr().IsLoopback() {
				return a.Addr()
			}
		}
	}
	return netip.Addr{}
}

// Hostname is the name that the kernel knows.
func (s *System) Hostname() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hostname
}

// SetHostname changes the name that the kernel knows.
func (s *System) SetHostname(name string) {
	s.mu.Lock()
	s.hostname = name
	s.mu.Unlock()
	s.Put("/proc/sys/kernel/hostname", name+"\n", 0o644)
}

// Interfaces are the network cards with their addresses.
func (s *System) Interfaces() []Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ifaces)
}

// SetInterfaces is given the cards that are up. A machine with more than its loopback
// sends packets.
func (s *System) SetInterfaces(all []Interface) {
	s.mu.Lock()
	s.ifaces = all
	s.mu.Unlock()
	s.m.talks.Store(len(all) > 1)
}
