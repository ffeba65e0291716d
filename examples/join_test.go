package examples_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/remote"
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
	login   cloudinit.Machine // who may log in, and the rest that machines have in common
}

// boot starts a machine that was told at first boot what 02-render-seed tells one.
func (s *site) boot(t *testing.T, name, address, mac string) *guest.Machine {
	t.Helper()
	m := s.login
	m.Hostname, m.Address, m.MAC = name, netip.MustParsePrefix(address+"/24"), mac
	seed, err := cloudinit.RenderWorker(m)
	require.NoError(t, err)
	machine := guest.New(guest.Config{
		Name: name, Disk: guest.NewBase("noble"), MACs: []string{mac}, CPUs: 4, Memory: 8 << 30, Seed: seed.ISO,
		Disks:   []guest.BlockDevice{{Size: 64 << 30}},
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

// TestJoinAgent runs 03-join-agent against a machine that boots, answers SSH and runs
// K3s in simulation, and a cluster of one server beside it.
func TestJoinAgent(t *testing.T) {
	dir, folder := outside(t), t.TempDir()
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	key, known := filepath.Join(folder, "id"), filepath.Join(folder, "known_hosts")
	require.NoError(t, os.WriteFile(key, private, 0o600))
	s := &site{
		network: &guest.Network{Speed: speed}, kube: &kubesim.Sim{Speed: speed},
		login: cloudinit.Machine{User: "ubuntu", AuthorizedKeys: []string{public}, Gateway: netip.MustParseAddr("10.0.0.1")},
	}
	t.Cleanup(func() { _ = s.network.Close() })
	server := s.boot(t, "cp1", "10.0.0.11", "bc:24:11:00:00:11")
	worker := s.boot(t, "wk1", "10.0.0.21", "bc:24:11:00:00:21")
	token := startServer(t, s, server, key)

	address := s.expose(t, "10.0.0.21:22")
	join := func(env ...string) result {
		return run(t, dir, "03-join-agent", env, "-addr", address, "-key", key, "-known-hosts", known, "-server", "https://10.0.0.11:6443", "-timeout", "60s")
	}
	stranger := join("K3S_TOKEN=" + token)
	assert.Equal(t, 1, stranger.code)
	assert.Contains(t, stranger.stderr, "no host key of "+address+" is known", "no trust on first use")

	require.NoError(t, ssh.NewKnownHosts(known).Store(address, hostKey(t, worker)))
	assert.Contains(t, join().stderr, "K3S_TOKEN")
	first := join("K3S_TOKEN=" + token)
	require.Zero(t, first.code, first.stderr)
	assert.Contains(t, first.stdout, "runs K3s "+k3s.DefaultVersion+" as an agent of https://10.0.0.11:6443")
	assert.NotContains(t, first.stdout+first.stderr, token)
	require.Len(t, s.kube.Clusters(), 1)
	assert.True(t, s.kube.Clusters()[0].HasNode("wk1"))

	before := worker.Mutations()
	again := join("K3S_TOKEN=" + token)
	assert.Zero(t, again.code, again.stderr)
	assert.Equal(t, before, worker.Mutations(), "the second run changes nothing")
}

// startServer makes a cluster of one machine, and returns what agents join it with.
func startServer(t *testing.T, s *site, m *guest.Machine, key string) string {
	t.Helper()
	signer, err := ssh.LoadSigner(key)
	require.NoError(t, err)
	client := ssh.New(ssh.Config{Addr: "10.0.0.11:22", User: "ubuntu", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(hostKey(t, m)), Dial: s.network.Dial})
	t.Cleanup(func() { _ = client.Close() })
	root := remote.Sudo(client)
	_, err = k3s.Install(t.Context(), root, k3s.Release{Version: k3s.DefaultVersion})
	require.NoError(t, err)
	require.NoError(t, k3s.StartServer(t.Context(), root, k3s.Server{Version: k3s.DefaultVersion}))
	_, err = k3s.Wait(t.Context(), root, k3s.RoleServer)
	require.NoError(t, err)
	token, err := k3s.AgentToken(t.Context(), root)
	require.NoError(t, err)
	return token.Reveal()
}
