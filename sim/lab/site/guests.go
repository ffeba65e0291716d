package site

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// guests is what real VMs need beside the simulated host.
type guests struct {
	dir    string // of their disks and consoles, which end with the lab
	lan    LAN
	prefix netip.Prefix
}

// realGuests puts QEMU behind the host's API, with a network for its VMs. Every download of
// the host returns the lab's image.
func (s *Site) realGuests(ctx context.Context, host *pvesim.Options) error {
	g := s.opts.Guests
	if s.opts.LAN == nil {
		return errors.New("this program of the lab has no real VMs")
	}
	image := qemu.ImageIn(g.Image)
	s.opts.Log.Info("checking whether VMs must be emulated")
	emulated := qemu.KVM(ctx, image)
	if emulated != nil {
		s.opts.Log.Warn("VMs are emulated, and slow", "why", emulated)
	}
	s.real = &guests{dir: filepath.Join(s.opts.Dir, "guests"), prefix: g.Network.Masked()}
	if err := os.RemoveAll(s.real.dir); err != nil { // of a lab that crashed
		return fmt.Errorf("lab: %w", err)
	}
	if err := os.MkdirAll(s.real.dir, 0o700); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	network, err := s.opts.LAN(ctx, g)
	if err != nil {
		return err
	}
	s.real.lan = network
	h, err := qemu.New(qemu.Options{
		Image: image, Network: g.Network, Gateway: g.Gateway, Dir: s.real.dir, LAN: network, KVM: emulated == nil,
	})
	if err != nil {
		return err
	}
	host.Hypervisor = h
	file := h.ImageFile()
	s.State.ImageSHA256 = fmt.Sprintf("%x", sha256.Sum256(file))
	host.Internet = func(string) ([]byte, error) { return file, nil }
	host.Timing = pvesim.Timing{DownloadRate: pvesim.TiB, CopyRate: pvesim.TiB}
	return nil
}

// dialReal connects to a simulated host's shell, or to an address in the guests' network.
func (s *Site) dialReal(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !s.real.prefix.Contains(to.Addr()) {
		return s.sim.Network().Dial(ctx, network, address)
	}
	for _, h := range s.State.Hosts {
		if h.Address == address {
			return s.sim.Network().Dial(ctx, network, address)
		}
	}
	return s.real.lan.Dial(ctx, network, address)
}

func (g *guests) close() {
	if g.lan != nil {
		g.lan.Close()
	}
	_ = os.RemoveAll(g.dir)
}
