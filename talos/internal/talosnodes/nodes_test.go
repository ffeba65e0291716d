package talosnodes_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	talos "github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/distribution"
	"github.com/cps-gpu/homelab/talos/internal/sim"
	"github.com/cps-gpu/homelab/talos/internal/talosnodes"
)

var bundle = sync.OnceValues(func() (*secrets.Bundle, error) {
	return secrets.NewBundle(secrets.NewClock(), talos.TalosVersion1_13)
})

// cluster is one server and one agent, in maintenance mode.
func cluster(t *testing.T) (*talosnodes.Nodes, *sim.World, map[string]*sim.Machine) {
	t.Helper()
	s := &spec.Spec{Name: "home", Distribution: spec.DistributionTalos, Talos: spec.TalosLinux{Version: "v1.13.7"}}
	s.K3s = spec.K3s{Version: "v1.36.2"}
	s.K3s.Kubernetes = spec.Kubernetes{ClusterDomain: "cluster.local", PodCIDR: spec.Ranges{netip.MustParsePrefix("10.42.0.0/16")}, ServiceCIDR: spec.Ranges{netip.MustParsePrefix("10.43.0.0/16")}}
	s.Nodes = []spec.Node{{Name: "cp1", Role: spec.Server, Address: netip.MustParsePrefix("10.0.0.11/24"), MAC: spec.MAC{2, 0, 0, 0, 0, 1}},
		{Name: "w1", Role: spec.Agent, Address: netip.MustParsePrefix("10.0.0.21/24"), MAC: spec.MAC{2, 0, 0, 0, 0, 2}}}
	world, machines := sim.NewWorld(), map[string]*sim.Machine{}
	for _, n := range s.Nodes {
		m, err := world.Boot(n.Address.Addr().String())
		require.NoError(t, err)
		machines[n.Name] = m
	}
	b, err := bundle()
	require.NoError(t, err)
	site := distribution.Site{Spec: s, Dial: world.Dial, ReadStart: func(ctx context.Context, machine, _ string, count int) ([]byte, error) {
		return machines[machine].Log(ctx, count)
	}}
	return talosnodes.New(site, talosnodes.With(b, world.Post)), world, machines
}

// start is what package members does with a node: it observes, and starts while something differs.
func start(t *testing.T, d distribution.Distribution, n spec.Node, w distribution.Wish) (steps []string) {
	t.Helper()
	for range 20 {
		m, err := d.Observe(t.Context(), n)
		require.NoError(t, err)
		require.NoError(t, m.Refuse(t.Context()))
		diff := m.Diff(w)
		if len(diff) == 0 {
			return steps
		}
		steps = append(steps, diff[0].Path)
		require.NoError(t, m.Start(t.Context(), w, distribution.Admission{}))
	}
	t.Fatal("it never ends")
	return nil
}

// TestThroughTheInterface: a cluster begins with what every distribution is asked.
func TestThroughTheInterface(t *testing.T) { synctest.Test(t, throughTheInterface) }

func throughTheInterface(t *testing.T) {
	ns, world, machines := cluster(t)
	cp1, w1 := ns.Spec.Nodes[0], ns.Spec.Nodes[1]
	_, err := ns.Kubeconfig(t.Context(), "cp1")
	require.ErrorIs(t, err, distribution.ErrNoCluster)
	assert.Contains(t, ns.Unwell(t.Context(), "cp1"), "no cluster was created")

	wish := distribution.Wish{ProviderID: "proxmox://home/201", Labels: map[string]string{"a.example/b": "c"}}
	assert.Equal(t, []string{"configuration"}, start(t, ns, cp1, wish), "a step acts once")
	assert.Equal(t, []int{1}, values(world.Begun()))
	wish.Joins = true
	start(t, ns, w1, wish)
	assert.Empty(t, start(t, ns, cp1, wish), "a server that is there joins nothing")
	assert.Empty(t, ns.Unwell(t.Context(), "cp1"))
	_, err = ns.Kubeconfig(t.Context(), "cp1")
	require.NoError(t, err)

	m, err := ns.Observe(t.Context(), w1)
	require.NoError(t, err)
	state := m.State()
	assert.Len(t, state.Authority, 64)
	state.Authority = ""
	assert.Equal(t, distribution.State{Role: spec.Agent, Configured: true, Started: true, Admitted: true, Running: true, Version: "v1.36.2",
		API: "https://10.0.0.11:6443", Cluster: "home", ProviderID: "proxmox://home/201"}, state)

	require.NoError(t, ns.Restart(t.Context(), w1, distribution.Admission{}))
	assert.Equal(t, []string{"kubelet"}, machines["w1"].Restarted())
}

func values(m map[string]int) (out []int) {
	for _, n := range m {
		out = append(out, n)
	}
	return out
}

// TestChanges: a change of the file restarts what it has to; networks cannot change.
func TestChanges(t *testing.T) { synctest.Test(t, changes) }

func changes(t *testing.T) {
	ns, _, _ := cluster(t)
	cp1 := ns.Spec.Nodes[0]
	start(t, ns, cp1, distribution.Wish{})
	m, err := ns.Observe(t.Context(), cp1)
	require.NoError(t, err)
	diff := m.Diff(distribution.Wish{Labels: map[string]string{"a.example/b": "c"}})
	require.Len(t, diff, 1)
	assert.Equal(t, converge.Restart, diff[0].Effect)
	assert.Contains(t, diff[0].Note, "+            node-labels: a.example/b=c")

	ns.Spec.K3s.PodCIDR = spec.Ranges{netip.MustParsePrefix("10.50.0.0/16")}
	require.ErrorContains(t, m.CheckRanges(), "talos.podCIDR: cp1 has 10.42.0.0/16, which cannot change")
	require.Error(t, m.Refuse(t.Context()))
}

// TestAway: a machine that does not answer is waited for.
func TestAway(t *testing.T) { synctest.Test(t, away) }

func away(t *testing.T) {
	ns, world, _ := cluster(t)
	world.Step = func(string) error { return errors.New("no route to host") }
	m, err := ns.Observe(t.Context(), ns.Spec.Nodes[0])
	require.NoError(t, err)
	assert.Equal(t, distribution.State{Waits: m.State().Waits, Away: true}, m.State())
	assert.Contains(t, m.State().Waits, "no route to host")
	assert.Len(t, m.Diff(distribution.Wish{}), 1)
	require.ErrorContains(t, m.Start(t.Context(), distribution.Wish{}, distribution.Admission{}), "cp1 does not answer: cp1: the machine's API does not answer yet: no route to host")
	assert.Contains(t, ns.Unwell(t.Context(), "cp1"), "no route to host")
}

func TestCompare(t *testing.T) {
	ns := &talosnodes.Nodes{}
	assert.Equal(t, []int{-1, 0, 1, -1, 1}, []int{ns.Compare("v1.35.9", "v1.36.2"), ns.Compare("v1.36.2", "v1.36.2"), ns.Compare("v1.36.10", "v1.36.2"), ns.Compare("", "v1.36.2"), ns.Compare("v1.36.2", "")})
	assert.Equal(t, "talos/cp1", ns.Facts().StepID("cp1"))
}

// TestKilledBeforeTheCluster: a server that has its configuration and no cluster does not count as one that created
// it, so that the others are asked again.
func TestKilledBeforeTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns, world, _ := cluster(t)
		cp1 := ns.Spec.Nodes[0]
		killed := false
		world.Step = func(what string) error {
			if killed = killed || what == "/machine.MachineService/Bootstrap"; killed {
				return errors.New("killed")
			}
			return nil
		}
		m, err := ns.Observe(t.Context(), cp1)
		require.NoError(t, err)
		err = m.Start(t.Context(), distribution.Wish{}, distribution.Admission{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "cp1 did not begin the cluster: cp1: the machine's API does not answer yet")
		world.Step = nil

		m, err = ns.Observe(t.Context(), cp1)
		require.NoError(t, err)
		state := m.State()
		assert.True(t, state.Started)
		assert.False(t, state.Configured || state.Running)
		assert.Empty(t, state.API, "it may still begin the cluster")
		_, err = ns.Admit(t.Context(), "cp1", cp1, 0)
		require.ErrorIs(t, err, distribution.ErrNoCluster)
		assert.Equal(t, []string{"etcd"}, start(t, ns, cp1, distribution.Wish{}))
		assert.Equal(t, []int{1}, values(world.Begun()))
		_, err = ns.Admit(t.Context(), "cp1", cp1, 0)
		require.NoError(t, err)
	})
}

// TestOtherVersion: a machine that is away just after the control planes is waited for.
func TestOtherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns, world, machines := cluster(t)
		cp1 := ns.Spec.Nodes[0]
		start(t, ns, cp1, distribution.Wish{})
		ns.Spec.K3s.Version, ns.Spec.Talos.Version = "v1.36.4", "v1.13.8"
		m, err := ns.Observe(t.Context(), cp1)
		require.NoError(t, err)
		assert.Equal(t, "Talos v1.13.7 → v1.13.8, Kubernetes v1.36.2 → v1.36.4", m.State().Outdated)

		looks, away, last := 0, 0, ""
		world.Step = func(what string) error {
			before := last
			if strings.HasPrefix(what, "after ") {
				last = what
			}
			switch {
			case what == "after /cosi.resource.State/List" && before == "after /machine.MachineService/ServiceList": // at its control plane
				looks, away = looks+1, 3
			case strings.HasPrefix(what, "dial ") && away > 0:
				away--
				return errors.New("connection refused")
			}
			return nil
		}
		require.NoError(t, m.Upgrade(t.Context(), distribution.Wish{}, distribution.Admission{}))
		assert.Equal(t, []int{1, 0}, []int{looks, away}, "and it is away after the last look")
		assert.Contains(t, machines["cp1"].Config(), "kubelet:v1.36.4")
	})
}

// TestTimeEndsWithinARequest: what did not answer in time is said.
func TestTimeEndsWithinARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns, world, _ := cluster(t)
		cp1 := ns.Spec.Nodes[0]
		start(t, ns, cp1, distribution.Wish{})
		ns.Spec.K3s.Version = "v1.36.4"
		m, err := ns.Observe(t.Context(), cp1)
		require.NoError(t, err)
		over := make(chan struct{})
		world.Step = func(what string) error {
			if what == "/cosi.resource.State/List" {
				<-over
			}
			return nil
		}
		err = m.Upgrade(t.Context(), distribution.Wish{}, distribution.Admission{})
		close(over)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "the control plane of cp1 does not run Kubernetes v1.36.4: ")
	})
}
