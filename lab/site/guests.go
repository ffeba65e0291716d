package site

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/cps-gpu/homelab/lab/lan"
	"github.com/cps-gpu/homelab/sim/pvesim"
	"github.com/cps-gpu/homelab/sim/qemu"
)

// guests is what real VMs need beside the simulated host.
type guests struct {
	dir    string // of their disks and consoles, which end with the lab
	lan    *lan.LAN
	prefix netip.Prefix
}

// realGuests puts QEMU behind the host's API, with a network for its VMs. Every download of
// the host returns the lab's image.
func (s *Site) realGuests(ctx context.Context, host *pvesim.Options) error {
	g := s.opts.Guests
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
	o := lan.Options{Prefix: g.Network, Gateway: g.Gateway}
	if g.Internet {
		o.Outward, o.Resolver = new(net.Dialer).DialContext, resolver("/etc/resolv.conf")
	}
	var err error
	if s.real.lan, err = lan.New(ctx, o); err != nil {
		return err
	}
	h, err := qemu.New(qemu.Options{
		Image: image, Network: g.Network, Gateway: g.Gateway, Dir: s.real.dir, LAN: s.real.lan, KVM: emulated == nil,
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

// resolver is the first DNS server that this machine asks, host:port; empty for none.
func resolver(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return net.JoinHostPort(f[1], "53")
		}
	}
	return ""
}

func (g *guests) close() {
	if g.lan != nil {
		g.lan.Close()
	}
	_ = os.RemoveAll(g.dir)
}
