package examples_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// speed is how much faster than life the machines below are.
const speed = 50

// site is a network of simulated machines that one can log in to.
type site struct {
	network *guest.Network
	kube    *kubesim.Sim
	cards   []guest.PCI       // of machines that boot
	login   cloudinit.Machine // who may log in, and the rest that machines have in common
}

// boot starts a machine that was told at first boot what 02-three-vms tells one.
func (s *site) boot(t *testing.T, name, address, mac string) *guest.Machine {
	t.Helper()
	m := s.login
	m.Hostname, m.Address, m.MAC = name, netip.MustParsePrefix(address+"/24"), mac
	seed, err := cloudinit.RenderWorker(m)
	require.NoError(t, err)
	machine := guest.New(guest.Config{
		Name: name, Disk: guest.NewBase("noble"), MACs: []string{mac}, CPUs: 4, Memory: 8 << 30, Seed: seed.ISO,
		Disks: []guest.BlockDevice{{Size: 64 << 30}}, PCI: s.cards,
		Network: s.network, Internet: guest.DefaultInternet(), Kubernetes: s.kube, Speed: speed,
	})
	t.Cleanup(machine.Kill)
	require.NoError(t, machine.Boot(t.Context()))
	require.Eventually(t, func() bool {
		conn, err := s.network.Dial(t.Context(), "tcp", address+":22")
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 30*time.Second, 20*time.Millisecond, "%s does not answer", name)
	return machine
}

// hostKey reads a machine's host key where the guest agent would.
func hostKey(t *testing.T, m *guest.Machine) ssh.PublicKey {
	t.Helper()
	line, err := m.Disk().ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
	require.NoError(t, err)
	key, err := ssh.ParseAuthorizedKey(string(line))
	require.NoError(t, err)
	return key
}

// expose makes an address of the simulated network reachable for other processes.
func (s *site) expose(t *testing.T, address string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			outer, err := listener.Accept()
			if err != nil {
				return
			}
			inner, err := s.network.Dial(context.WithoutCancel(t.Context()), "tcp", address)
			if err != nil {
				_ = outer.Close()
				continue
			}
			go func() { _, _ = io.Copy(inner, outer); _ = inner.Close() }()
			go func() { _, _ = io.Copy(outer, inner); _ = outer.Close() }()
		}
	}()
	return listener.Addr().String()
}

// newSite makes a network, and a home folder with a key that its machines let in.
func newSite(t *testing.T) (s *site, home string) {
	t.Helper()
	home = t.TempDir()
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ssh", "id_ed25519"), private, 0o600))
	s = &site{
		network: &guest.Network{Speed: speed}, kube: &kubesim.Sim{Speed: speed},
		login: cloudinit.Machine{User: "ubuntu", AuthorizedKeys: []string{public}, Gateway: netip.MustParseAddr("10.0.0.1")},
	}
	t.Cleanup(func() { _ = s.network.Close() })
	return s, home
}

// know writes a machine's host key into the known_hosts of a home folder.
func know(t *testing.T, home, address string, m *guest.Machine) {
	t.Helper()
	require.NoError(t, ssh.NewKnownHosts(filepath.Join(home, ".ssh", "known_hosts")).Store(address, hostKey(t, m)))
}

// TestTwoMachines runs 03-two-machines against machines that boot, answer SSH and run
// K3s in simulation.
func TestTwoMachines(t *testing.T) {
	s, home := newSite(t)
	server := s.boot(t, "cp1", "10.0.0.11", "bc:24:11:00:00:11")
	worker := s.boot(t, "wk1", "10.0.0.21", "bc:24:11:00:00:21")
	first, second := s.expose(t, "10.0.0.11:22"), s.expose(t, "10.0.0.21:22")
	form := func() result {
		return run(t, "03-two-machines", []string{"HOME=" + home}, "ubuntu@"+first, "ubuntu@"+second, "https://10.0.0.11:6443")
	}
	stranger := form()
	assert.Equal(t, 1, stranger.code)
	assert.Contains(t, stranger.stderr, "no host key of "+first+" is known", "no trust on first use")

	know(t, home, first, server)
	know(t, home, second, worker)
	made := form()
	require.Zero(t, made.code, made.stderr)
	require.Len(t, s.kube.Clusters(), 1)
	assert.True(t, s.kube.Clusters()[0].HasNode("wk1"))

	before := [][]string{server.Mutations(), worker.Mutations()}
	again := form()
	assert.Zero(t, again.code, again.stderr)
	assert.Equal(t, before, [][]string{server.Mutations(), worker.Mutations()}, "the second run changes nothing")
}

// TestInstallDriver runs 04-gpu-driver on a machine with three cards of two generations.
func TestInstallDriver(t *testing.T) {
	s, home := newSite(t)
	card := func(address string, device uint16) guest.PCI {
		return guest.PCI{Address: address, Host: address, Vendor: 0x10de, Device: device, Class: 0x030200}
	}
	s.cards = []guest.PCI{card("0000:01:00.0", 0x20f1), card("0000:02:00.0", 0x20f1), card("0000:03:00.0", 0x1db4)}
	machine := s.boot(t, "wk1", "10.0.0.21", "bc:24:11:00:00:21")
	address := s.expose(t, "10.0.0.21:22")
	know(t, home, address, machine)
	r := run(t, "04-gpu-driver", []string{"HOME=" + home}, "-on", "ubuntu@"+address, "10de:20f1", "10de:20f1", "10de:1db4")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "driver:   580-server\n", "one driver for all: the V100 cannot have the open modules")
	assert.Contains(t, r.stdout, "installed; left to do: [")
	before := machine.Mutations()
	r = run(t, "04-gpu-driver", []string{"HOME=" + home}, "-on", "ubuntu@"+address, "10de:20f1", "10de:20f1", "10de:1db4")
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, before, machine.Mutations(), "the second run changes nothing")
}

// TestInstallDriverWithSwitches: the GPUs of an HGX board need the fabric manager too.
func TestInstallDriverWithSwitches(t *testing.T) {
	s, home := newSite(t)
	device := func(address string, device uint16, class uint32) guest.PCI {
		return guest.PCI{Address: address, Host: address, Vendor: 0x10de, Device: device, Class: class}
	}
	s.cards = []guest.PCI{device("0000:01:00.0", 0x2330, 0x030200), device("0000:02:00.0", 0x2330, 0x030200), device("0000:03:00.0", 0x22a3, 0x068000)}
	machine := s.boot(t, "wk1", "10.0.0.21", "bc:24:11:00:00:21")
	address := s.expose(t, "10.0.0.21:22")
	know(t, home, address, machine)
	require.Zero(t, machine.Run(t.Context(), "root", "apt-get update && apt-get install --yes ubuntu-drivers-common", io.Discard), "it is asked what its archive offers")
	r := run(t, "04-gpu-driver", []string{"HOME=" + home}, "-on", "ubuntu@"+address, "10de:2330", "10de:2330")
	require.Zero(t, r.code, r.stderr)
	assert.NotContains(t, r.stdout, "fabricmanager: not enabled")
	var out strings.Builder
	machine.Run(t.Context(), "root", "dpkg-query -W nvidia-fabricmanager-580; apt-mark showhold; systemctl is-enabled nvidia-fabricmanager", &out)
	for _, want := range []string{"nvidia-fabricmanager-580\t580.173.02-0ubuntu0.24.04.1\n", "\nnvidia-fabricmanager-580\n", "\nenabled\n"} {
		assert.Contains(t, out.String(), want)
	}
}
