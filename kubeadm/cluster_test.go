package kubeadm_test

import (
	"context"
	"fmt"
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
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/kubesim"
)

const url = "https://10.0.0.11:6443"

func wanted() kubeadm.Cluster {
	return kubeadm.Cluster{Name: "home", Version: "v1.36.5", Endpoint: netip.MustParseAddrPort("10.0.0.11:6443"), SANs: []string{"k8s.home.arpa"},
		Pods: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}}
}

func node(name string, octet byte) kubeadm.Node {
	return kubeadm.Node{Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 0, octet}), ProviderID: "proxmox://home/" + name,
		Labels: map[string]string{"disk": "fast", "room": "2"}, Taints: []kubeadm.Taint{{Key: "only", Value: "ml", Effect: "NoSchedule"}}}
}

// site is a network with machines that are reached by a real SSH client.
type site struct {
	network *guest.Network
	planes  *kubesim.Sim
	key     ssh.Signer
	public  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	private, public, err := ssh.GenerateKey()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, private, 0o600))
	key, err := ssh.LoadSigner(path)
	require.NoError(t, err)
	s := &site{network: &guest.Network{}, planes: &kubesim.Sim{}, key: key, public: public}
	t.Cleanup(func() { _ = s.planes.Close() })
	return s
}

// boot makes a machine from nothing, and returns how to run commands on it as root.
func (s *site) boot(t *testing.T, name string, octet byte, system string) (*guest.Machine, remote.Runner) {
	t.Helper()
	address := netip.AddrFrom4([4]byte{10, 0, 0, octet})
	spec := cloudinit.Machine{Hostname: name, User: "admin", AuthorizedKeys: []string{s.public},
		MAC: fmt.Sprintf("bc:24:11:00:00:%02x", octet), Address: netip.PrefixFrom(address, 24), Gateway: netip.MustParseAddr("10.0.0.1")}
	seed, err := cloudinit.RenderWorker(spec)
	require.NoError(t, err)
	iso, err := seed.ISO()
	require.NoError(t, err)
	m := guest.New(guest.Config{Name: name, VMID: 100 + int(octet), Disk: guest.NewBase(system), MACs: []string{spec.MAC}, CPUs: 4, Memory: 8 << 30,
		Seed: func() ([]byte, error) { return iso, nil }, Network: s.network, Internet: guest.DefaultInternet(), Kubernetes: s.planes})
	require.NoError(t, m.Boot(t.Context()))
	t.Cleanup(m.Kill)
	client := ssh.New(ssh.Config{Addr: address.String() + ":22", User: "admin", Signers: []ssh.Signer{s.key}, Dial: s.network.Dial,
		HostKeys: func(context.Context, string) ([]ssh.PublicKey, error) {
			line, err := m.Disk().ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
			if err != nil {
				return nil, err
			}
			key, err := ssh.ParseAuthorizedKey(string(line))
			return []ssh.PublicKey{key}, err
		}})
	t.Cleanup(func() { _ = client.Close() })
	root := remote.Sudo(client)
	eventually(t, func() bool { return remote.Run(t.Context(), root, "cloud-init", "status", "--wait") == nil })
	return m, root
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for range 600 {
		if is() {
			return
		}
		time.Sleep(time.Second) // in synctest's time
	}
	t.Fatal("it is not so after ten minutes")
}

func (s *site) nodes(t *testing.T, r remote.Runner) map[string]kube.Node {
	t.Helper()
	config, err := kubeadm.Kubeconfig(t.Context(), r, url, "home")
	require.NoError(t, err)
	client, err := kube.New(kube.Config{Kubeconfig: []byte(config.Reveal()), Dial: s.network.Dial})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	all, err := client.Nodes(t.Context())
	require.NoError(t, err)
	out := map[string]kube.Node{}
	for _, n := range all {
		out[n.Name] = n
	}
	return out
}

// A server creates a cluster and an agent joins it, on Ubuntu and on Debian; the second time nothing changes. No
// command has the token among its arguments, and it is on no disk afterwards.
func TestACluster(t *testing.T) {
	for _, system := range []string{"noble", "trixie"} {
		t.Run(system, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, want, ctx := newSite(t), wanted(), t.Context()
				server, first := s.boot(t, "cp1", 11, system)
				agent, second := s.boot(t, "gpu1", 12, system)

				_, err := kubeadm.CreateToken(ctx, first, time.Hour, "x")
				require.ErrorIs(t, err, kubeadm.ErrNoCluster)
				_, err = kubeadm.Kubeconfig(ctx, first, url, "home")
				require.ErrorIs(t, err, kubeadm.ErrNoCluster)
				require.ErrorIs(t, kubeadm.Create(ctx, first, want, node("cp1", 11)), kubeadm.ErrNotInstalled)
				for _, r := range []remote.Runner{first, second} {
					require.NoError(t, kubeadm.Claim(ctx, r, "home"))
					require.NoError(t, kubeadm.Install(ctx, r, kubeadm.Release{Version: want.Version}))
				}
				require.NoError(t, kubeadm.Create(ctx, first, want, node("cp1", 11)))
				require.NoError(t, kubeadm.Ready(ctx, first))
				token, err := kubeadm.CreateToken(ctx, first, time.Hour, "x")
				require.NoError(t, err)
				require.NoError(t, kubeadm.Join(ctx, second, want, node("gpu1", 12), kubeadm.OpenToken(token.Seal())))
				require.NoError(t, kubeadm.RevokeToken(ctx, first, token.ID))
				require.NoError(t, kubeadm.RevokeToken(ctx, first, token.ID))

				eventually(t, func() bool { all := s.nodes(t, first); return all["cp1"].Ready && all["gpu1"].Ready })
				for name, n := range s.nodes(t, first) {
					assert.Equal(t, []any{"v1.36.5", "proxmox://home/" + name, "fast"}, []any{n.Version, n.ProviderID, n.Labels["disk"]})
					assert.Equal(t, []kube.Taint{{Key: "only", Value: "ml", Effect: "NoSchedule"}}, n.Taints)
				}
				before := len(server.Mutations()) + len(agent.Mutations())
				for role, r := range map[kubeadm.Role]remote.Runner{kubeadm.Server: first, kubeadm.Agent: second} {
					have, err := kubeadm.Observe(ctx, r)
					require.NoError(t, err)
					assert.Empty(t, have.Diff(want, kubeadm.Node{}, role))
					require.NoError(t, have.CheckSettings(want))
					assert.Equal(t, []any{role, true, true, "home", "amd64", map[kubeadm.Role]string{kubeadm.Agent: url}[role]},
						[]any{have.Role, have.Running(), have.Held, have.Cluster, have.Arch, have.API})
				}
				assert.Len(t, append(server.Mutations(), agent.Mutations()...), before)

				secret := strings.Fields(token.Seal().Reveal())[0]
				for _, m := range []*guest.Machine{server, agent} {
					for _, args := range m.Commands() {
						assert.NotContains(t, strings.Join(args, " "), secret)
					}
				}
				_, err = agent.Disk().ReadFile("/run/homelab-kubeadm.yaml")
				require.Error(t, err)

				agent.Kill() // a machine that was off joins again by itself
				require.NoError(t, agent.Boot(ctx))
				eventually(t, func() bool { have, err := kubeadm.Observe(ctx, second); return err == nil && have.Running() })
				eventually(t, func() bool { return s.nodes(t, first)["gpu1"].Ready })

				other := want
				other.Pods = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}
				have, err := kubeadm.Observe(ctx, first)
				require.NoError(t, err)
				require.EqualError(t, have.CheckSettings(other), "the network of pods is 10.42.0.0/16, and should be 10.99.0.0/16")
			})
		})
	}
}
