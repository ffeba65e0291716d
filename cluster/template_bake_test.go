package cluster_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// little is a cluster for a host with two CPUs.
const little = `
name: small
proxmox: {endpoint: lab}
network: {prefix: 10.0.0.0/24, gateway: 10.0.0.1}
k3s: {version: v1.36.5+k3s1}
defaults: {storage: vmdata}
nodes:
  cp1: {role: server, address: 10.0.0.11, cores: 2, memory: 3GiB}
  wk1: {role: agent, address: 10.0.0.21, cores: 1, memory: 2GiB}
`

// fails brings the world to what spec says, within an hour, and returns the error.
func (w *world) fails(t testing.TB, spec *spec.Spec) error {
	t.Helper()
	c := w.cluster(t, spec)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err := c.Up().Run(ctx, w.listen(t))
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it must give up by itself")
	return err
}

// made counts the machines that were created, not cloned, and those destroyed.
func (w *world) made() (created, destroyed int) {
	for _, r := range w.mutations() {
		switch {
		case r == "POST /nodes/pve1/qemu":
			created++
		case strings.HasPrefix(r, "DELETE /nodes/pve1/qemu/"):
			destroyed++
		}
	}
	return created, destroyed
}

// The machine in which a template is baked is no larger than the nodes: where they
// start, it does.
func TestBakingOnASmallHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := pvesim.OneGPU()
		m.Hosts[0].CPUs = 2
		w := newWorld(t, m)
		spec := parse(t, little)
		c := w.cluster(t, spec)
		defer c.Close()
		report, err := c.HostCheck(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, report.WithVerdict(preflight.Error))
		w.up(t, spec)
		assert.Empty(t, w.plan(t, spec))
		for _, vm := range w.sim.VMs() {
			if vm.Template {
				assert.Equal(t, "2", vm.Config["cores"])
				assert.Equal(t, "3072", vm.Config["memory"])
			}
		}
	})
}

// A machine whose start failed was never on: what fails after that is told, and is no
// reason to destroy it.
func TestABakeThatNeverBegan(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, little)
		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, TaskError: "got timeout", Times: 1})
		require.ErrorContains(t, w.fails(t, spec), "got timeout")

		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Times: -1, Guest: &guest.Faults{AgentNeverAnswers: true}})
		require.ErrorContains(t, w.fails(t, spec), "Check its console: qm terminal 100 on pve1")
		created, destroyed := w.made()
		assert.Equal(t, 1, created)
		assert.Zero(t, destroyed)
	})
}

// It holds nothing either: where the nodes have become smaller, and with them the
// machine, it is made anew.
func TestABakeThatNeverBeganIsMadeSmaller(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, TaskError: "got timeout", Times: 1})
		require.ErrorContains(t, w.fails(t, parse(t, replace(t, little, "cores: 2", "cores: 4"))), "got timeout")
		spec := parse(t, little)
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "half-made → small-template")
		w.up(t, spec)
		created, destroyed := w.made()
		assert.Equal(t, 2, created)
		assert.Equal(t, 1, destroyed)
		assert.Empty(t, w.plan(t, spec))
	})
}

// A machine that was switched off half-way through its first boot, and comes no
// further, is made anew. The plan says that it may be, and the first reason is kept.
func TestABakeThatWasSwitchedOff(t *testing.T) {
	inWorld(t, pvesim.OneGPU(), func(t *testing.T, w *world) {
		spec := parse(t, little)
		require.False(t, w.cut(t, spec, 22*time.Second))
		require.Len(t, w.names(), 1)
		w.byHand(t, spec, w.names()[0], "stop")
		assert.Contains(t, strings.Join(w.plan(t, spec), "\n"), "it is off: it is started again, and recreated if it is stuck")

		w.sim.Fail(pvesim.Rule{Path: `.*/status/start`, Times: 1, Guest: &guest.Faults{AgentNeverAnswers: true}})
		w.sim.Fail(pvesim.Rule{Path: `/nodes/pve1/qemu`, Method: "POST", TaskError: "no space left on device", Times: 1})
		err := w.fails(t, spec)
		require.ErrorContains(t, err, "no space left on device")
		require.ErrorContains(t, err, "VM 100, which was switched off half-way through its first boot, was destroyed and recreated, because it was stuck after a restart: baking small-template")
		require.ErrorContains(t, err, "Check its console: qm terminal 100 on pve1")
	})
}
