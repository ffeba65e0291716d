package k3s_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cloudinit"
	"github.com/cps-gpu/homelab/k3s"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

// site is a network with machines that are reached by a real SSH client.
type site struct {
	t       *testing.T
	network *guest.Network
	planes  *kubesim.Sim
	key     ssh.Signer
	public  string
}

const vip, url = "10.0.0.10", "https://10.0.0.10:6443"

func newSite(t *testing.T) *site {
	t.Helper()
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	key, err := ssh.LoadSigner(path)
	require.NoError(t, err)
	s := &site{t: t, network: &guest.Network{}, planes: &kubesim.Sim{}, key: key, public: public}
	t.Cleanup(func() { _ = s.planes.Close() })
	return s
}

// boot makes a machine from nothing, with K3s installed, and returns how to run
// commands on it as root.
func (s *site) boot(name string, octet int, role k3s.Role) (*guest.Machine, remote.Runner) {
	s.t.Helper()
	address := netip.AddrFrom4([4]byte{10, 0, 0, byte(octet)})
	spec := cloudinit.Machine{Hostname: name, User: "admin", AuthorizedKeys: []string{s.public},
		MAC: fmt.Sprintf("bc:24:11:00:00:%02x", octet), Address: netip.PrefixFrom(address, 24), Gateway: netip.MustParseAddr("10.0.0.1")}
	render := cloudinit.RenderWorker
	if role == k3s.RoleServer {
		render = cloudinit.RenderServer
	}
	seed, err := render(spec)
	require.NoError(s.t, err)
	iso, err := seed.ISO()
	require.NoError(s.t, err)
	m := guest.New(guest.Config{Name: name, VMID: 100 + octet, Disk: guest.NewBase("noble"), MACs: []string{spec.MAC}, CPUs: 4, Memory: 8 << 30,
		Seed: func() ([]byte, error) { return iso, nil }, Network: s.network, Internet: guest.DefaultInternet(), Kubernetes: s.planes})
	require.NoError(s.t, m.Boot(s.t.Context()))
	s.t.Cleanup(m.Kill)
	client := ssh.New(ssh.Config{Addr: address.String() + ":22", User: "admin", Signers: []ssh.Signer{s.key}, Dial: s.network.Dial,
		HostKeys: func(context.Context, string) ([]ssh.PublicKey, error) {
			line, err := m.Disk().ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
			if err != nil {
				return nil, err
			}
			key, err := ssh.ParseAuthorizedKey(string(line))
			return []ssh.PublicKey{key}, err
		}})
	s.t.Cleanup(func() { _ = client.Close() })
	r := remote.Sudo(client)
	s.eventually(func() error { return remote.Run(s.t.Context(), r, "cloud-init", "status", "--wait") })
	changed, err := k3s.Install(s.t.Context(), r, k3s.Release{Version: version})
	require.NoError(s.t, err)
	assert.True(s.t, changed)
	return m, r
}

func (s *site) eventually(try func() error) {
	s.t.Helper()
	var err error
	for range 300 {
		if err = try(); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	require.NoError(s.t, err)
}

// up waits until K3s runs and the machine is all that was asked for.
func (s *site) up(r remote.Runner, role k3s.Role, diff func(k3s.State) string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	_, err := k3s.Wait(ctx, r, role)
	require.NoError(s.t, err)
	state, err := k3s.Observe(s.t.Context(), r)
	require.NoError(s.t, err)
	assert.Empty(s.t, diff(state))
}

func (s *site) server(name string, octet int) k3s.Server {
	return k3s.Server{Version: version, TLSSANs: []string{vip}, Disable: []string{"traefik"},
		Node: k3s.Node{Name: name, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(octet)})}}}
}

// form makes a cluster of n servers, and returns its token and kubeconfig.
func (s *site) form(n int) (first remote.Runner, token secret.Value, kubeconfig secret.Value) {
	s.t.Helper()
	ctx := s.t.Context()
	_, first = s.boot("cp1", 11, k3s.RoleServer)
	spec := s.server("cp1", 11)
	manifest, err := k3s.KubeVIP(k3s.VIP{Address: netip.MustParseAddr(vip)})
	require.NoError(s.t, err)
	spec.Manifests = map[string][]byte{k3s.KubeVIPManifest: manifest}
	_, err = k3s.Token(ctx, first)
	require.ErrorIs(s.t, err, k3s.ErrNoCluster)
	require.NoError(s.t, k3s.StartServer(ctx, first, spec))
	s.up(first, k3s.RoleServer, func(st k3s.State) string { return spec.Diff(st).String() })
	token, err = k3s.Token(ctx, first)
	require.NoError(s.t, err)
	for i := 2; i <= n; i++ {
		name := fmt.Sprintf("cp%d", i)
		_, r := s.boot(name, 10+i, k3s.RoleServer)
		spec := s.server(name, 10+i)
		spec.URL, spec.Token = url, token
		require.NoError(s.t, k3s.JoinServer(ctx, r, spec))
		s.up(r, k3s.RoleServer, func(st k3s.State) string { return spec.Diff(st).String() })
	}
	kubeconfig, err = k3s.Kubeconfig(ctx, first, url, "lab")
	require.NoError(s.t, err)
	return first, token, kubeconfig
}

func worker(name string) k3s.Agent {
	return k3s.Agent{Version: version, URL: url, Node: k3s.Node{Name: name,
		Labels: map[string]string{"pool": "gpu"}, Taints: []string{"nvidia.com/gpu=present:NoSchedule"}}}
}

// TestHighAvailability is the whole way: machines that boot, three servers, an
// agent that joins through the VIP, and a kubeconfig that points there.
func TestHighAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		first, _, kubeconfig := s.form(3)
		token, err := k3s.AgentToken(t.Context(), first)
		require.NoError(t, err)
		m, r := s.boot("wk1", 21, k3s.RoleAgent)
		a := worker("wk1")
		require.NoError(t, k3s.JoinAgent(t.Context(), r, k3s.Join{Token: token, Agent: a}))
		s.up(r, k3s.RoleAgent, func(st k3s.State) string { return a.Diff(st).String() })

		c, err := kube.New(kube.Config{Kubeconfig: []byte(kubeconfig.Reveal()), Dial: s.network.Dial})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		time.Sleep(10 * time.Second)
		nodes, err := c.Nodes(t.Context())
		require.NoError(t, err)
		var seen []string
		for _, n := range nodes {
			seen = append(seen, fmt.Sprint(n.Name, " ", n.Role, " ", n.InternalIP, " ", n.Version, " ", n.Ready))
		}
		assert.Equal(t, []string{
			"cp1 server 10.0.0.11 v1.36.5+k3s1 true", "cp2 server 10.0.0.12 v1.36.5+k3s1 true",
			"cp3 server 10.0.0.13 v1.36.5+k3s1 true", "wk1 agent 10.0.0.21 v1.36.5+k3s1 true"}, seen)

		before := len(m.Mutations())
		require.NoError(t, k3s.JoinAgent(t.Context(), r, k3s.Join{Token: token, Agent: a}))
		changed, err := k3s.Install(t.Context(), r, k3s.Release{Version: version})
		require.NoError(t, err)
		assert.False(t, changed)
		assert.Len(t, m.Mutations(), before, "the second time nothing is changed: %v", m.Mutations()[before:])
		hidden := token.Reveal()[strings.LastIndex(token.Reveal(), ":")+1:]
		for _, args := range m.Commands() {
			assert.NotContains(t, strings.Join(args, " "), hidden, "a token is never an argument")
		}
	})
}

// A stray machine asks a server that is joining, with a wrong token. The server logs
// whom it refuses, and that is not a trouble of its own.
func TestAStrayDoesNotStopAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		_, token, _ := s.form(1)
		m, r := s.boot("cp2", 12, k3s.RoleServer)
		spec := s.server("cp2", 12)
		spec.URL, spec.Token = url, token
		_, stray := s.boot("stray", 99, k3s.RoleAgent)
		wrong := k3s.Agent{Version: version, URL: "https://10.0.0.12:6443", Node: k3s.Node{Name: "stray"}}
		require.NoError(t, k3s.JoinAgent(t.Context(), stray, k3s.Join{Token: secret.New("wrong-token"), Agent: wrong}))

		require.NoError(t, k3s.JoinServer(t.Context(), r, spec))
		s.up(r, k3s.RoleServer, func(st k3s.State) string { return spec.Diff(st).String() })
		assert.Contains(t, strings.Join(m.Journal("k3s"), "\n"), "Sending HTTP/1.1 401 response to 10.0.0.99:")

		_, err := k3s.Wait(t.Context(), stray, k3s.RoleAgent)
		var start *k3s.StartError
		require.ErrorAs(t, err, &start)
		assert.Contains(t, err.Error(), "the server refuses the token")
	})
}

// TestServersComeAndGo holds K3s to what etcd makes of it: a dead server counts
// until its Node is deleted, and so long nobody else can have its name.
func TestServersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		_, token, kubeconfig := s.form(3)
		c, err := kube.New(kube.Config{Kubeconfig: []byte(kubeconfig.Reveal()), Dial: s.network.Dial})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		s.destroy(13)

		_, r := s.boot("cp3", 14, k3s.RoleServer)
		again := s.server("cp3", 14)
		again.URL, again.Token = url, token
		require.NoError(t, k3s.JoinServer(t.Context(), r, again))
		_, err = k3s.Wait(t.Context(), r, k3s.RoleServer)
		require.ErrorContains(t, err, "etcd still has a member of this name")
		require.NoError(t, c.DeleteNode(t.Context(), "cp3"))
		time.Sleep(2 * time.Second) // a person reads the error
		require.NoError(t, k3s.JoinServer(t.Context(), r, again), "what the error says to do")
		s.up(r, k3s.RoleServer, func(st k3s.State) string { return again.Diff(st).String() })

		// Of three, one may go; of two that are left after it was removed, none.
		s.destroy(14)
		require.NoError(t, c.DeleteNode(t.Context(), "cp3"))
		require.NoError(t, c.CheckReachable(t.Context()))
		second := s.network.Host(netip.MustParseAddr("10.0.0.12")).(*guest.Machine)
		second.Kill()
		time.Sleep(time.Minute)
		_, err = s.network.Dial(t.Context(), "tcp", "10.0.0.11:6443")
		require.ErrorContains(t, err, "refused", "one of two has no quorum")
		require.NoError(t, second.Boot(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, c.CheckReachable(t.Context()))

		s.destroy(12)
		conn, err := s.planes.Clusters()[0].Dial(t.Context())
		require.NoError(t, err, "there is a server yet")
		require.NoError(t, conn.Close())
		s.destroy(11)
		_, err = s.planes.Clusters()[0].Dial(t.Context())
		assert.ErrorIs(t, err, net.ErrClosed, "the last is gone, and so is the control plane")
	})
}

// destroy destroys a machine with its disk.
func (s *site) destroy(octet byte) {
	m := s.network.Host(netip.AddrFrom4([4]byte{10, 0, 0, octet})).(*guest.Machine)
	m.Kill()
	s.network.Forget(m.Disk())
}

func TestWrongTokenIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		_, token, _ := s.form(1)
		_, r := s.boot("wk1", 21, k3s.RoleAgent)
		wrong := secret.New(token.Reveal() + "x")
		require.NoError(t, k3s.JoinAgent(t.Context(), r, k3s.Join{Token: wrong, Agent: worker("wk1")}))
		began := time.Now()
		var failed *k3s.StartError
		_, err := k3s.Wait(t.Context(), r, k3s.RoleAgent)
		require.ErrorAs(t, err, &failed)
		assert.Less(t, time.Since(began), 30*time.Second)
		assert.Contains(t, failed.Error(), "the server refuses the token: it is wrong, has expired or was deleted: give the agent a new one")

		require.NoError(t, k3s.JoinAgent(t.Context(), r, k3s.Join{Token: token, Agent: worker("wk1")}))
		s.up(r, k3s.RoleAgent, func(st k3s.State) string { return worker("wk1").Diff(st).String() })
	})
}

func TestNameThatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		_, token, kubeconfig := s.form(1)
		_, old := s.boot("wk1", 21, k3s.RoleAgent)
		require.NoError(t, k3s.JoinAgent(t.Context(), old, k3s.Join{Token: token, Agent: worker("wk1")}))
		s.up(old, k3s.RoleAgent, func(st k3s.State) string { return worker("wk1").Diff(st).String() })

		_, r := s.boot("wk2", 22, k3s.RoleAgent)
		a := worker("wk1")
		require.NoError(t, k3s.JoinAgent(t.Context(), r, k3s.Join{Token: token, Agent: a}))
		_, err := k3s.Wait(t.Context(), r, k3s.RoleAgent)
		assert.ErrorContains(t, err, "the cluster knows another machine of this name: delete its Node")

		// What the error says helps, and nothing has to be done on the machine.
		require.NoError(t, k3s.Remove(t.Context(), old))
		c, err := kube.New(kube.Config{Kubeconfig: []byte(kubeconfig.Reveal()), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.network.Dial(ctx, network, addr)
		}})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.DeleteNode(t.Context(), "wk1"))
		s.eventually(func() error { return c.CheckReachable(t.Context()) })
		time.Sleep(30 * time.Second)
		state, err := k3s.Observe(t.Context(), r)
		require.NoError(t, err)
		assert.Empty(t, a.Diff(state).String())
		gone, err := k3s.Observe(t.Context(), old)
		require.NoError(t, err)
		assert.Equal(t, k3s.RoleNone, gone.Role)
		assert.Empty(t, gone.Version)
	})
}

func TestWaitingForNoRoleIsAnError(t *testing.T) {
	for _, role := range []k3s.Role{k3s.RoleNone, k3s.RoleBoth, "master"} {
		_, err := k3s.Wait(t.Context(), remote.RunnerFunc(func(context.Context, remote.Cmd) error { panic("nothing is asked") }), role)
		require.ErrorContains(t, err, "wait for server or agent", "%q", role)
	}
}
