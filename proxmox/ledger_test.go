package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// claimant is a VM with passed-through devices, hostpci0 and so on.
func claimant(id int, name string, running bool, hostpci ...string) pvesim.VM {
	config := map[string]string{"cores": "1", "memory": "1024"}
	for i, line := range hostpci {
		config["hostpci"+string(rune('0'+i))] = line
	}
	return pvesim.VM{ID: id, Node: "pve1", Name: name, Running: running, Config: config}
}

// pool makes a mapping of several cards, by their numbers.
func pool(t *testing.T, c *proxmox.Client, id string, cards ...int) {
	t.Helper()
	gpus, err := c.PCI.GPUs(t.Context(), "pve1")
	require.NoError(t, err)
	var chosen []pci.GPU
	for _, i := range cards {
		chosen = append(chosen, gpus[i])
	}
	require.NoError(t, c.PCI.EnsureMapping(t.Context(), pci.MapGPUs(id, "", "pve1", chosen...)))
}

func TestLedger(t *testing.T) {
	model := pvesim.EightA100()
	model.VMs = append(model.VMs,
		claimant(200, "raw", true, "0000:01:00", "host=25:00.0,pcie=1"),
		claimant(201, "pooled", false, "mapping=pool,pcie=1"),
		claimant(202, "template", false, "mapping=pool"),
	)
	model.VMs[3].Config["onboot"] = "1"
	model.VMs[4].Config["template"] = "1"
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		pool(t, c, "pool", 1, 2)
		pool(t, c, "idle", 7)
		before := len(sim.Requests())
		l, err := c.PCI.Ledger(t.Context(), "pve1")
		require.NoError(t, err)
		assert.LessOrEqual(t, len(sim.Requests())-before, 2+5, "all VMs, and one for each; hardware and mappings are known")
		require.Len(t, l.Cards, 8)

		first, ok := l.Card("pve1", l.Cards[0].Address)
		require.True(t, ok)
		require.Len(t, first.Claims, 1)
		assert.Equal(t, "VM 200 (raw)", first.Claims[0].String())
		assert.Equal(t, "by address as hostpci0, running", first.Claims[0].Description())
		assert.Empty(t, first.Mappings)

		second := l.Cards[1]
		assert.Equal(t, []string{"pool"}, second.Mappings)
		require.Len(t, second.Claims, 3)
		assert.Equal(t, "by mapping pool as hostpci0, stopped, starts with the host", second.Claims[1].Description())
		assert.Equal(t, "by mapping pool as hostpci0, a template", second.Claims[2].Description())
		assert.Empty(t, l.Cards[3].Claims)
		assert.Equal(t, []string{"idle"}, l.Cards[7].Mappings)

		// 25:00 is raw's; pooled may take it first, or the other one of the pool.
		conflicts := l.Conflicts()
		require.Len(t, conflicts, 1)
		assert.False(t, conflicts[0].Sure)
		assert.True(t, conflicts[0].Imminent())
		assert.Equal(t, "0000:25:00, 0000:41:00 on pve1 can only go to the first to start of "+
			"VM 200 (raw) by address as hostpci1, running; VM 201 (pooled) by mapping pool as hostpci0, stopped, starts with the host", conflicts[0].String())

		_, none := l.Card("pve2", first.Address)
		assert.False(t, none)
	})
}

// A container claims the cards that its configuration names; one that is removed meanwhile claims none.
func TestContainersInTheLedger(t *testing.T) {
	model := pvesim.OneGPU()
	card := map[string]string{"dev0": "/dev/nvidia0", "onboot": "1", "description": "NVIDIA"}
	model.Containers = []pvesim.Container{{ID: 301, Node: "pve1", Name: "plex", Config: card}, {ID: 302, Node: "pve1", Name: "dns"}, {ID: 303, Node: "pve1", Name: "gone", Config: card}}
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.Fail(pvesim.Rule{Path: ".*/lxc/303/config", Status: 500, Message: "Configuration file 'nodes/pve1/lxc/303.conf' does not exist"})
		l, err := c.PCI.Ledger(t.Context(), "pve1")
		require.NoError(t, err)
		for _, r := range sim.Requests() {
			assert.NotContains(t, r.Path, "/qemu/30", "a container is not a VM")
		}
		require.Len(t, l.Cards, 1)
		require.Len(t, l.Cards[0].Claims, 1)
		assert.Equal(t, "container 301 (plex)", l.Cards[0].Claims[0].String())
		assert.Equal(t, "by /dev/nvidia0 as dev0, stopped, starts with the host", l.Cards[0].Claims[0].Description())
	})
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		sim.Fail(pvesim.Rule{Path: ".*/lxc/301/config", Status: 403, Message: "blind"})
		_, err := c.PCI.Ledger(t.Context(), "pve1")
		assert.ErrorContains(t, err, "blind")
	})
}

func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		name string
		vms  []pvesim.VM
		want []string // "sure" or "maybe", one a conflict
	}{
		{name: "each its own", vms: []pvesim.VM{claimant(200, "a", false, "01:00"), claimant(201, "b", false, "25:00")}},
		{name: "one card twice", vms: []pvesim.VM{claimant(200, "a", false, "01:00"), claimant(201, "b", false, "0000:01:00.0")}, want: []string{"sure"}},
		{name: "twice in one VM", vms: []pvesim.VM{claimant(200, "a", false, "01:00", "01:00.0")}, want: []string{"sure"}},
		{name: "two ports of one network card", vms: []pvesim.VM{claimant(200, "a", false, "43:00.0"), claimant(201, "b", false, "43:00.1")}},
		{name: "a port and the whole card", vms: []pvesim.VM{claimant(200, "a", false, "43:00.1"), claimant(201, "b", false, "43:00")}, want: []string{"sure"}},
		{name: "a pool with enough", vms: []pvesim.VM{claimant(200, "a", false, "mapping=pp"), claimant(201, "b", false, "mapping=pp")}},
		{name: "a pool of one VM", vms: []pvesim.VM{claimant(200, "a", false, "mapping=pp", "mapping=pp")}},
		{name: "a pool with too few", vms: []pvesim.VM{claimant(200, "a", true, "mapping=pp", "mapping=pp"), claimant(201, "b", false, "mapping=pp")}, want: []string{"sure"}},
		{name: "a pool and one of its cards", vms: []pvesim.VM{claimant(200, "a", false, "mapping=pp"), claimant(201, "b", false, "01:00")}, want: []string{"maybe"}},
		{name: "mediated devices", vms: []pvesim.VM{claimant(200, "a", false, "01:00,mdev=nvidia-1"), claimant(201, "b", false, "01:00,mdev=nvidia-1")}},
		{name: "two cards as one", vms: []pvesim.VM{claimant(200, "a", false, "host=01:00;25:00"), claimant(201, "b", false, "25:00")}, want: []string{"sure"}},
		{name: "a mapping that is gone", vms: []pvesim.VM{claimant(200, "a", false, "mapping=x"), claimant(201, "b", false, "mapping=x")}},
		{name: "two apart", vms: []pvesim.VM{claimant(200, "a", false, "01:00", "c1:00"), claimant(201, "b", false, "01:00", "c1:00")}, want: []string{"sure", "sure"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := pvesim.EightA100()
			model.VMs = append(model.VMs, tt.vms...)
			bubble(t, model, pvesim.Options{}, func(t *testing.T, _ *pvesim.Sim, c *proxmox.Client) {
				pool(t, c, "pp", 0, 1)
				l, err := c.PCI.Ledger(t.Context(), "pve1")
				require.NoError(t, err)
				var got []string
				for _, conflict := range l.Conflicts() {
					got = append(got, map[bool]string{true: "sure", false: "maybe"}[conflict.Sure])
				}
				assert.Equal(t, tt.want, got)
			})
		})
	}
}

// Who knows the VMs of an owner reads those of all others.
func TestLedgerWithoutAnOwners(t *testing.T) {
	model := pvesim.EightA100()
	ours := claimant(200, "ours", false, "01:00")
	for k, v := range marked(200) {
		ours.Config[k] = v
	}
	model.VMs = append(model.VMs, ours, claimant(201, "theirs", false, "25:00"))
	bubble(t, model, pvesim.Options{}, func(t *testing.T, sim *pvesim.Sim, c *proxmox.Client) {
		for who, want := range map[string][]string{"": {"VM 200 (ours)", "VM 201 (theirs)"}, owner: {"VM 201 (theirs)"}, "homelab-x": {"VM 200 (ours)", "VM 201 (theirs)"}} {
			l, err := c.PCI.LedgerWithout(t.Context(), who, "pve1")
			require.NoError(t, err)
			var got []string
			for _, claim := range l.Claims {
				got = append(got, claim.String())
			}
			assert.Equal(t, want, got, who)
		}
	})
}
