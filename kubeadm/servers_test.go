package kubeadm_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kubeadm"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/guest"
)

var vip = netip.MustParseAddr("10.0.0.100")

// wantedServers is a cluster whose API has an address of its own.
func wantedServers() kubeadm.Cluster {
	c := wanted()
	c.Endpoint, c.VIP = netip.AddrPortFrom(vip, 6443), &kubeadm.VIP{}
	return c
}

// servers are machines of a cluster with a virtual address, by their names.
type servers struct {
	*site
	machines map[string]*guest.Machine
	roots    map[string]remote.Runner
	secrets  []string // of tokens, and keys
}

func newServers(t *testing.T) *servers {
	t.Helper()
	return &servers{site: newSite(t), machines: map[string]*guest.Machine{}, roots: map[string]remote.Runner{}}
}

func octetOf(name string) byte { return name[len(name)-1] - '0' + 10 }

func (s *servers) add(t *testing.T, name string) {
	t.Helper()
	s.machines[name], s.roots[name] = s.boot(t, name, octetOf(name), "noble")
	require.NoError(t, kubeadm.Install(t.Context(), s.roots[name], kubeadm.Release{Version: "v1.36.5"}))
}

// begin makes machines, of which the first creates a cluster.
func begin(t *testing.T, names ...string) *servers {
	t.Helper()
	s := newServers(t)
	for _, name := range names {
		s.add(t, name)
	}
	require.NoError(t, kubeadm.Create(t.Context(), s.roots[names[0]], wantedServers(), node(names[0], octetOf(names[0]))))
	return s
}

// join lets a server join by way of another one, and revokes the token, as a caller does.
func (s *servers) join(ctx context.Context, name, by string) error {
	t, err := kubeadm.CreateServerToken(ctx, s.roots[by], wantedServers(), node(by, octetOf(by)), time.Hour, name)
	if err != nil {
		return err
	}
	parts := strings.Fields(t.Seal().Reveal())
	s.secrets = append(s.secrets, parts[0], parts[2])
	err = kubeadm.JoinServer(ctx, s.roots[name], wantedServers(), node(name, octetOf(name)), kubeadm.OpenToken(t.Seal()))
	if failed := kubeadm.RevokeToken(context.WithoutCancel(ctx), s.roots[by], t.ID); err == nil {
		err = failed
	}
	return err
}

// byVIP are the nodes that the API shows at the virtual address.
func (s *servers) byVIP(t *testing.T) map[string]kube.Node {
	t.Helper()
	config, err := kubeadm.Kubeconfig(t.Context(), s.roots["cp2"], "https://"+vip.String()+":6443", "home")
	require.NoError(t, err)
	client, err := kube.New(kube.Config{Kubeconfig: []byte(config.Reveal()), Dial: s.network.Dial})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	out := map[string]kube.Node{}
	all, err := client.Nodes(t.Context())
	if err != nil { // the address may be moving
		return out
	}
	for _, n := range all {
		out[n.Name] = n
	}
	return out
}

func (s *servers) members(t *testing.T, by string) (names []string) {
	t.Helper()
	all, err := kubeadm.Members(t.Context(), s.roots[by])
	require.NoError(t, err)
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names
}

// areServers waits until machines are servers as wanted, whose kube-vip has the administrator's login, and the API
// answers at its address.
func (s *servers) areServers(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, func() bool {
			have, err := kubeadm.Observe(t.Context(), s.roots[name])
			return err == nil && have.Running() && have.Diff(wantedServers(), node(name, octetOf(name)), kubeadm.Server).Empty() && have.CheckSettings(wantedServers()) == nil
		})
		text, err := remote.Output(t.Context(), s.roots[name], "cat", "/etc/kubernetes/manifests/kube-vip.yaml")
		require.NoError(t, err)
		assert.Contains(t, string(text), "path: /etc/kubernetes/admin.conf")
		assert.Contains(t, string(text), "value: "+node(name, octetOf(name)).Address.String()+":6443")
	}
	assert.ElementsMatch(t, names, s.members(t, names[len(names)-1]))
	eventually(t, func() bool {
		all := s.byVIP(t)
		for _, name := range names {
			if !all[name].Ready {
				return false
			}
		}
		return true
	})
}

// Three servers share etcd, and the API's address is at one that runs. A server is replaced once etcd has let it go. No
// argument of a command has a token or the key of the certificates, which ends.
func TestServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := begin(t, "cp1", "cp2", "cp3")
		require.NoError(t, s.join(ctx, "cp2", "cp1"))
		require.NoError(t, s.join(ctx, "cp3", "cp2"))
		s.areServers(t, "cp1", "cp2", "cp3")
		for name, want := range map[string]string{"cp1": "", "cp2": "https://10.0.0.100:6443"} {
			have, err := kubeadm.Observe(ctx, s.roots[name])
			require.NoError(t, err)
			assert.Equal(t, want, have.API, name)
		}

		first := s.network.Host(vip)
		first.(*guest.Machine).Kill()
		eventually(t, func() bool { h := s.network.Host(vip); return h != nil && h != first })
		require.NoError(t, first.(*guest.Machine).Boot(ctx))
		s.areServers(t, "cp1", "cp2", "cp3")
		for _, m := range s.machines { // a cold start
			m.Kill()
		}
		for _, m := range s.machines {
			require.NoError(t, m.Boot(ctx))
		}
		s.areServers(t, "cp1", "cp2", "cp3")

		s.machines["cp1"].Kill()
		s.network.Forget(s.machines["cp1"].Disk())
		all, err := kubeadm.Members(ctx, s.roots["cp2"])
		require.NoError(t, err)
		for _, m := range all {
			if m.Name == "cp1" {
				assert.Equal(t, "10.0.0.11", m.Address.String())
				require.NoError(t, kubeadm.RemoveMember(ctx, s.roots["cp2"], m))
				require.NoError(t, kubeadm.RemoveMember(ctx, s.roots["cp2"], m))
			}
		}
		s.add(t, "cp1")
		eventually(t, func() bool { return s.join(ctx, "cp1", "cp2") == nil })
		s.areServers(t, "cp1", "cp2", "cp3")

		require.NotEmpty(t, s.secrets)
		for name, m := range s.machines {
			for _, args := range m.Commands() {
				for _, secret := range s.secrets {
					assert.NotContains(t, strings.Join(args, " "), secret, name)
				}
			}
			for _, file := range []string{"/run/homelab-kubeadm.yaml", "/run/homelab-kubeadm-certs.yaml"} {
				_, err := m.Disk().ReadFile(file)
				require.Error(t, err)
			}
		}
	})
}

// kubeadm and etcd refuse what would end badly: a key that has ended or is another one, a second member while one has
// not started, the removal of one that the others need, and an address of the API that nobody gives away.
func TestRefusalsOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, want := t.Context(), wantedServers()
		s := begin(t, "cp1", "cp2", "cp3")
		create := func(valid time.Duration) kubeadm.Token {
			token, err := kubeadm.CreateServerToken(ctx, s.roots["cp1"], want, node("cp1", 11), valid, "")
			require.NoError(t, err)
			return token
		}
		old := create(3 * time.Hour)
		joins := func(token kubeadm.Token) error {
			return kubeadm.JoinServer(ctx, s.roots["cp2"], want, node("cp2", 12), token)
		}
		create(time.Hour)
		require.ErrorContains(t, joins(old), "error decoding secret data with provided key")
		old = create(3 * time.Hour)
		time.Sleep(2*time.Hour + time.Minute) // in synctest's time
		err := joins(old)
		require.ErrorContains(t, err, "This Secret might have expired")
		assert.NotContains(t, err.Error(), strings.Fields(old.Seal().Reveal())[2])
		require.ErrorContains(t, joins(kubeadm.Token{}), "join a server")

		short, cancel := context.WithTimeout(ctx, 6*time.Second) // announced, and not started
		require.Error(t, s.join(short, "cp2", "cp1"))
		cancel()
		s.machines["cp2"].Kill()
		assert.ElementsMatch(t, []string{"cp1", ""}, s.members(t, "cp1"))
		require.ErrorContains(t, s.join(ctx, "cp3", "cp1"), "too many learner members")
		require.NoError(t, s.machines["cp2"].Boot(ctx))
		eventually(t, func() bool { return s.join(ctx, "cp2", "cp1") == nil })
		s.machines["cp2"].Kill()
		all, err := kubeadm.Members(ctx, s.roots["cp1"])
		require.Error(t, err, "one of two is not enough: %v", all)
		require.Error(t, kubeadm.Ready(ctx, s.roots["cp1"]))

		no := wantedServers()
		no.VIP = &kubeadm.VIP{}
		require.ErrorContains(t, kubeadm.Create(ctx, s.roots["cp3"], no, kubeadm.Node{Name: "cp3"}), "needs an address of its own")
	})
}

// Nobody gives the address away if kube-vip has a login without rights, asks at that address, or is not there.
func TestNoVIPWithoutALogin(t *testing.T) {
	for _, harm := range []string{`s|path: /etc/kubernetes/super-admin.conf|path: /etc/kubernetes/admin.conf|`, `s|kubernetes_addr|other|`} {
		synctest.Test(t, func(t *testing.T) {
			s := newServers(t)
			s.add(t, "cp1")
			done := make(chan struct{})
			defer func() { <-done }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // as soon as kubelet could read it
				defer close(done)
				for ctx.Err() == nil {
					_ = remote.Run(ctx, s.roots["cp1"], "sh", "-c", "sed -i '"+harm+"' /etc/kubernetes/manifests/kube-vip.yaml")
					time.Sleep(time.Second) // in synctest's time
				}
			}()
			err := kubeadm.Create(t.Context(), s.roots["cp1"], wantedServers(), node("cp1", 11))
			require.ErrorContains(t, err, "could not bootstrap the admin user in file admin.conf")
		})
	}
}

// A server whose start was cut short, by the end of the session or of the power, is gone on with: etcd has one member of
// it, and the cluster is the same.
func TestAServerThatIsCutShort(t *testing.T) {
	mine := share.Start(t, "servers that are cut short")
	for _, power := range []bool{false, true} {
		for cut := 300 * time.Millisecond; cut < 50*time.Second; cut = cut*4/3 + time.Second/3 {
			if !mine.Next() {
				continue
			}
			t.Run(fmt.Sprint(cut, power), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					s := newServers(t)
					create := func(ctx context.Context) error {
						return kubeadm.Create(ctx, s.roots["cp1"], wantedServers(), node("cp1", 11))
					}
					join := func(ctx context.Context) error { return s.join(ctx, "cp2", "cp1") }
					for _, one := range []struct {
						name string
						do   func(context.Context) error
					}{{"cp1", create}, {"cp2", join}} {
						s.add(t, one.name)
						short, cancel := context.WithTimeout(ctx, cut)
						_ = one.do(short)
						cancel()
						if power {
							s.machines[one.name].Kill()
							require.NoError(t, s.machines[one.name].Boot(ctx))
							time.Sleep(2 * time.Minute) // in synctest's time
						}
						eventually(t, func() bool {
							if one.name == "cp2" {
								if have, err := kubeadm.Observe(ctx, s.roots["cp2"]); err == nil && have.Running() {
									return true
								}
							}
							return one.do(ctx) == nil
						})
					}
					s.areServers(t, "cp1", "cp2")
					assert.Len(t, s.planes.Clusters(), 1)
				})
			})
		}
	}
}
