package proxmox_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/remotetest"
	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// booted returns a running VM whose seed installs the guest agent.
func booted(t *testing.T, c *proxmox.Client) *proxmox.VM {
	template(t, c)
	require.NoError(t, ensure(t.Context(), c, node(t, c, "cp1")))
	vm, err := c.VMs.Get(t.Context(), owner, "cp1")
	require.NoError(t, err)
	return vm
}

func TestGuestOfTheSimulator(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		vm := booted(t, c)
		before := len(sim.Requests())
		require.NoError(t, c.Agents.Wait(t.Context(), vm))
		assert.Empty(t, mutations(sim, before), "waiting changes nothing")
		name, err := remote.Output(t.Context(), c.Agents.Runner(vm), "hostname")
		require.NoError(t, err)
		assert.Equal(t, "cp1\n", string(name))
		require.NoError(t, remote.WriteFile(t.Context(), c.Agents.Runner(vm), "/etc/motd", []byte("h\xc3\xa9llo \x00\xff"), 0o644))
		got, err := c.Agents.ReadFile(t.Context(), vm, "/etc/motd")
		require.NoError(t, err)
		assert.Equal(t, "h\xc3\xa9llo \x00\xff", string(got))
		_, err = c.Agents.ReadFile(t.Context(), vm, "/nope")
		assert.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestGuestThatNeverAnswers(t *testing.T) {
	bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.Fail(pvesim.Rule{Path: ".*/status/start", Guest: &guest.Faults{AgentNeverAnswers: true}})
		vm := booted(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		before := len(sim.Requests())
		err := c.Agents.Wait(ctx, vm)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "the guest agent of cp1 (VM 102 on pve1) has not answered in 10m")
		assert.LessOrEqual(t, len(sim.Requests())-before, 121, "asked every five seconds")
	})
}

// A guest that is too busy to answer the agent's ping, while a command runs in it, has
// not lost the command.
func TestBusyGuest(t *testing.T) {
	for times, want := range map[int]string{5: "", -1: "the guest agent is not running"} {
		bubble(t, pvesim.EightA100(), pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
			vm := booted(t, c)
			require.NoError(t, c.Agents.Wait(t.Context(), vm))
			sim.Fail(pvesim.Rule{Path: ".*/agent/exec-status", Status: 500, Message: "QEMU guest agent is not running", Times: times})
			begun := time.Now()
			name, err := remote.Output(t.Context(), c.Agents.Runner(vm), "hostname")
			if want != "" {
				require.ErrorIs(t, err, proxmox.ErrAgentNotRunning)
				assert.InDelta(t, 60, time.Since(begun).Seconds(), 5)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, "cp1\n", string(name))
		})
	}
}

// The contract of a Runner, against the simulated guest: in real time, since its
// subtests cannot run in a bubble.
func TestGuestContractInTheSimulator(t *testing.T) {
	sim := pvesim.New(pvesim.EightA100(), pvesim.Options{Speed: 500})
	defer sim.Close()
	c := dialSim(t, sim)
	vm := booted(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, c.Agents.Wait(ctx, vm))
	remotetest.Contract(t, func(*testing.T) remote.Runner { return c.Agents.Runner(vm) })
}

// A template is baked: booted, changed through the agent, shut down, converted;
// what was put there is in its clones.
func TestBake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := pvesim.New(pvesim.EightA100(), pvesim.Options{})
		defer sim.Close()
		c, ctx := dialSim(t, sim), t.Context()
		vm, err := c.VMs.Create(ctx, proxmox.CreateSpec{
			Name: "a100-template", Host: "pve1", Owner: owner, Image: fetch(t, c, "pve1"), Storage: "vmdata", DiskSize: 16 * proxmox.GiB,
			Cores: 2, Memory: 4 * proxmox.GiB, NICs: []proxmox.NIC{{Bridge: "vmbr0"}}, Seed: seed(t, c, "bake"),
		})
		require.NoError(t, err)
		require.NoError(t, c.VMs.Start(ctx, vm))
		require.NoError(t, c.Agents.Wait(ctx, vm))
		require.NoError(t, remote.WriteFile(ctx, c.Agents.Runner(vm), "/opt/baked", []byte("yes\n"), 0o644))
		require.ErrorContains(t, c.Templates.Convert(ctx, vm), "runs: a template is made of a VM that is off")
		require.NoError(t, c.VMs.Shutdown(ctx, vm))
		require.NoError(t, c.Templates.Convert(ctx, vm))
		require.NoError(t, c.Templates.Convert(ctx, vm), "again")
		tmpl, err := c.Templates.Get(ctx, owner, "", "a100-template")
		require.NoError(t, err)
		assert.Empty(t, tmpl.Seed)
		require.NoError(t, ensure(ctx, c, node(t, c, "cp1")))
		clone, err := c.VMs.Get(ctx, owner, "cp1")
		require.NoError(t, err)
		require.NoError(t, c.Agents.Wait(ctx, clone))
		got, err := c.Agents.ReadFile(ctx, clone, "/opt/baked")
		require.NoError(t, err)
		assert.Equal(t, "yes\n", string(got))
	})
}
