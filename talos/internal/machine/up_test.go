package machine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"filippo.io/age"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	talos "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	bundles "github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/talos/internal/config"
	"github.com/cps-gpu/homelab/talos/internal/machine"
	"github.com/cps-gpu/homelab/talos/internal/secrets"
	"github.com/cps-gpu/homelab/talos/internal/sim"
)

// A site is a cluster and what lasts between runs: the folder of its file, and the machines.
type site struct {
	folder     string
	spec       *spec.Spec
	world      *sim.World
	machines   map[string]*sim.Machine
	recipients []string
	admin      *clientconfig.Context
}

func newSite(t *testing.T, servers, agents int) *site {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s := &site{folder: t.TempDir(), world: sim.NewWorld(), machines: map[string]*sim.Machine{}, recipients: []string{id.Recipient().String()}, spec: &spec.Spec{Name: "home"}}
	s.spec.K3s.Kubernetes = spec.Kubernetes{ClusterDomain: "cluster.local", PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}, ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.43.0.0/16")}}
	if servers > 1 {
		s.spec.K3s.VIP = netip.MustParseAddr("10.0.0.10")
	}
	for i := range servers + agents {
		n := spec.Node{Name: fmt.Sprintf("n%d", i+1), Role: spec.Server, Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(11 + i)}), 24), MAC: spec.MAC{0xbc, 0x24, 0x11, 0, 0, byte(i)}}
		if i >= servers {
			n.Role = spec.Agent
		}
		s.spec.Nodes = append(s.spec.Nodes, n)
		s.boot(t, n)
	}
	return s
}

func (s *site) boot(t *testing.T, n spec.Node) {
	t.Helper()
	m, err := s.world.Boot(n.Address.Addr().String())
	require.NoError(t, err)
	s.machines[n.Name] = m
}

func (s *site) store() *secrets.Store {
	return &secrets.Store{Folder: s.folder, Cluster: "home", Token: secret.New("f1e2"), Recipients: s.recipients}
}

func (s *site) reach(n spec.Node, b *secrets.Bundle) *machine.Machine {
	return &machine.Machine{Name: n.Name, Address: n.Address.Addr(), Secrets: b, Dial: s.world.Dial, Log: s.machines[n.Name].Log}
}

// keys has the one bundle of all tests, for new ones take seconds.
var keys = sync.OnceValues(func() (*secrets.Bundle, error) { return bundles.NewBundle(bundles.NewClock(), talos.TalosVersion1_13) })

// up is one run, from the secrets to the kubeconfig. It has nothing of an earlier run.
func (s *site) up(ctx context.Context) (secret.Value, error) {
	var servers []*machine.Machine
	for _, n := range s.spec.Servers() {
		servers = append(servers, s.reach(n, nil))
	}
	b, err := s.store().Open(ctx, func(ctx context.Context) (*secrets.Bundle, error) {
		if has, err := machine.Running(servers, s.admin)(ctx); has != nil || err != nil {
			return has, err
		}
		return keys()
	})
	if err != nil {
		return secret.Value{}, err
	}
	states := map[string]machine.State{}
	for _, n := range s.spec.Servers() {
		if states[n.Name], err = s.apply(ctx, n, b); err != nil {
			return secret.Value{}, err
		}
	}
	first := s.reach(s.spec.Nodes[0], b)
	if !slices.ContainsFunc(slices.Collect(maps.Values(states)), func(s machine.State) bool { return s.Etcd }) { // as package members asks the others
		err := machine.ErrNotYet
		for ctx.Err() == nil && errors.Is(err, machine.ErrNotYet) {
			err = first.Bootstrap(ctx)
		}
		if err != nil {
			return secret.Value{}, err
		}
	}
	for _, n := range s.spec.Agents() {
		if _, err := s.apply(ctx, n, b); err != nil {
			return secret.Value{}, err
		}
	}
	return first.Kubeconfig(ctx)
}

func (s *site) apply(ctx context.Context, n spec.Node, b *secrets.Bundle) (machine.State, error) {
	want, err := config.Machine(config.Wish{Spec: s.spec, Node: n, Kubernetes: "1.36.2", Installer: "factory.talos.dev/nocloud-installer/1:v1.13.7", Secrets: b})
	if err != nil {
		return machine.State{}, err
	}
	m := s.reach(n, b)
	for range 20 {
		have, err := m.Observe(ctx)
		if err != nil {
			return have, err
		}
		if have.Waits != "" {
			continue
		}
		diff, err := have.Diff(want)
		if err != nil || diff == "" {
			return have, err
		}
		if err := m.Apply(ctx, want); err != nil {
			return have, err
		}
	}
	return machine.State{}, errors.New(n.Name + " never gets there")
}

// whole: each machine has its configuration, etcd began once, and a further run applies nothing.
func (s *site) whole(t *testing.T) {
	t.Helper()
	before := map[string]int{}
	for name, m := range s.machines {
		before[name] = m.Applied()
		assert.Contains(t, m.Config(), "hostname: "+name)
	}
	kubeconfig, err := s.up(t.Context())
	require.NoError(t, err)
	assert.Contains(t, kubeconfig.Reveal(), "server: https://"+s.spec.APIAddress().String()+":6443")
	for name, m := range s.machines {
		assert.Equal(t, before[name], m.Applied(), "%s: nothing to change", name)
	}
	begun := s.world.Begun()
	assert.Len(t, begun, 1)
	for _, n := range begun {
		assert.Equal(t, 1, n)
	}
	for _, n := range s.spec.Servers() {
		assert.True(t, s.machines[n.Name].Etcd(), n.Name)
	}
}

func TestUp(t *testing.T) {
	for _, size := range [][2]int{{1, 0}, {1, 2}, {3, 1}} {
		s := newSite(t, size[0], size[1])
		_, err := s.up(t.Context())
		require.NoError(t, err)
		s.whole(t)
	}
}

// TestKilledAnywhere: a run that ends at any request, before its effect or after it, is finished by the next one.
func TestKilledAnywhere(t *testing.T) {
	total := 0
	count := newSite(t, 3, 1)
	count.world.Step = func(string) error { total++; return nil }
	_, err := count.up(t.Context())
	require.NoError(t, err)
	require.Greater(t, total, 50)

	killed := errors.New("killed")
	for at := 0; at < total; at += 3 {
		s := newSite(t, 3, 1)
		step := 0
		ctx, kill := context.WithCancel(t.Context())
		s.world.Step = func(string) error {
			if step++; step > at {
				kill()
				return killed
			}
			return nil
		}
		_, err := s.up(ctx)
		require.Error(t, err, "step %d of %d", at, total)
		kill()
		s.world.Step = nil
		_, err = s.up(t.Context())
		require.NoError(t, err, "after step %d of %d", at, total)
		s.whole(t)
	}
}

// TestAnotherMachineAnswers: nothing is sent to a machine that took a machine's address.
func TestAnotherMachineAnswers(t *testing.T) {
	s := newSite(t, 1, 0)
	n := s.spec.Nodes[0]
	true1 := s.machines["n1"]
	s.boot(t, n)
	other := s.machines["n1"]
	s.machines["n1"] = true1 // whose log the agent reads
	b, err := keys()
	require.NoError(t, err)
	_, err = s.apply(t.Context(), n, b)
	require.ErrorIs(t, err, machine.ErrForeign)
	assert.ErrorContains(t, err, "its key is another one than n1 has in its log")
	assert.Zero(t, other.Applied())
}

// TestAnotherClusters: a machine with the secrets of another cluster is left alone.
func TestAnotherClusters(t *testing.T) {
	s := newSite(t, 1, 0)
	_, err := s.up(t.Context())
	require.NoError(t, err)
	had := s.machines["n1"].Config()
	others, err := bundles.NewBundle(bundles.NewClock(), talos.TalosVersion1_13)
	require.NoError(t, err)
	_, err = s.reach(s.spec.Nodes[0], others).Observe(t.Context())
	require.ErrorIs(t, err, machine.ErrForeign)
	assert.Equal(t, had, s.machines["n1"].Config())
}

// TestLostSecrets: without the file a cluster that runs is never given new secrets. With a talosconfig the file comes
// back.
func TestLostSecrets(t *testing.T) {
	s := newSite(t, 1, 1)
	_, err := s.up(t.Context())
	require.NoError(t, err)
	b, err := s.store().Open(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.store().Path()))

	_, err = s.up(t.Context())
	require.ErrorIs(t, err, secrets.ErrLost)
	assert.NoFileExists(t, s.store().Path())

	in, err := generate.NewInput("home", "https://10.0.0.11:6443", "1.36.2", generate.WithSecretsBundle(b))
	require.NoError(t, err)
	all, err := in.Talosconfig()
	require.NoError(t, err)
	s.admin = all.Contexts[all.Context]
	s.whole(t)
	again, err := s.store().Open(t.Context(), nil)
	require.NoError(t, err)
	again.Clock, b.Clock = nil, nil
	assert.Equal(t, b, again)
}

// TestTwoFiles: the machine that makes a cluster and one that made a file for it before, and was killed: the second
// file is of no cluster, and is refused before anything is sent.
func TestTwoFiles(t *testing.T) {
	s := newSite(t, 1, 0)
	other, err := bundles.NewBundle(bundles.NewClock(), talos.TalosVersion1_13)
	require.NoError(t, err)
	_, err = s.store().Open(t.Context(), func(context.Context) (*secrets.Bundle, error) { return other, nil })
	require.NoError(t, err)
	stale := s.folder
	s.folder = t.TempDir()
	_, err = s.up(t.Context())
	require.NoError(t, err)
	s.folder = stale
	_, err = s.up(t.Context())
	require.ErrorIs(t, err, machine.ErrForeign)
}

// TestDiff: what differs is said without secrets.
func TestDiff(t *testing.T) {
	s := newSite(t, 1, 0)
	_, err := s.up(t.Context())
	require.NoError(t, err)
	b, err := keys()
	require.NoError(t, err)
	have, err := s.reach(s.spec.Nodes[0], b).Observe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "v1.13.7", have.Version)
	s.spec.Guest.Sysctls = map[string]string{"vm.swappiness": "1"}
	want, err := config.Machine(config.Wish{Spec: s.spec, Node: s.spec.Nodes[0], Kubernetes: "1.36.2", Installer: "i", Secrets: b})
	require.NoError(t, err)
	diff, err := have.Diff(want)
	require.NoError(t, err)
	assert.Contains(t, diff, `+        vm.swappiness: "1"`)
	for _, hidden := range []string{b.TrustdInfo.Token, b.Secrets.BootstrapToken, b.Cluster.Secret} {
		assert.NotContains(t, diff, hidden)
		assert.NotContains(t, fmt.Sprintf("%v %+v", want, have), hidden)
	}
}

// TestAnotherAnswersLater: the key is compared on the connection that is used, not only on the one that looked.
func TestAnotherAnswersLater(t *testing.T) {
	s := newSite(t, 1, 0)
	n, first := s.spec.Nodes[0], s.machines["n1"]
	elsewhere := sim.NewWorld()
	other, err := elsewhere.Boot("10.0.0.11")
	require.NoError(t, err)
	b, err := keys()
	require.NoError(t, err)
	want, err := config.Machine(config.Wish{Spec: s.spec, Node: n, Kubernetes: "1.36.2", Installer: "i", Secrets: b})
	require.NoError(t, err)
	m, dials := s.reach(n, b), 0
	m.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials > 1 {
			return elsewhere.Dial(ctx, network, address)
		}
		return s.world.Dial(ctx, network, address)
	}
	require.ErrorContains(t, m.Apply(t.Context(), want), "fingerprint")
	assert.Zero(t, first.Applied()+other.Applied())
}

// TestServerAgain: the machine of the first server is new, and joins the cluster that the others have.
func TestServerAgain(t *testing.T) {
	s := newSite(t, 3, 0)
	_, err := s.up(t.Context())
	require.NoError(t, err)
	s.boot(t, s.spec.Nodes[0])
	_, err = s.up(t.Context())
	require.NoError(t, err)
	s.whole(t)
}

// TestBootstrapAgain: etcd that has data is what was wanted.
func TestBootstrapAgain(t *testing.T) {
	s := newSite(t, 1, 0)
	_, err := s.up(t.Context())
	require.NoError(t, err)
	b, err := keys()
	require.NoError(t, err)
	require.NoError(t, s.reach(s.spec.Nodes[0], b).Bootstrap(t.Context()))
	s.whole(t)
}

// TestRefusedConfiguration: what a machine says about a configuration repeats parts of it, so it is not repeated here.
func TestRefusedConfiguration(t *testing.T) {
	s := newSite(t, 1, 0)
	b, err := keys()
	require.NoError(t, err)
	err = s.reach(s.spec.Nodes[0], b).Apply(t.Context(), secret.New("version: v1alpha1\nmachine:\n  hunter2: hunter2\n"))
	require.ErrorContains(t, err, "Talos refuses it")
	assert.NotContains(t, err.Error(), "hunter2")
}
