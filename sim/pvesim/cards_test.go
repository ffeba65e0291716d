package pvesim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// divided is a host with a card that is divided into two virtual functions, two cards in one group,
// and a container.
func divided() Model {
	m := OneGPU()
	card := func(at string, group int) PCIDevice {
		return PCIDevice{Address: at, ID: "10de:25b6", Subsystem: "10de:14a9", Class: "030200", Group: group, Vendor: "NVIDIA Corporation", Name: "GA107GL [A2 / A16]"}
	}
	virtual := func(at string, group int) PCIDevice {
		d := card(at, group)
		d.VirtualOf, d.MDev = "0000:41:00.0", true
		return d
	}
	m.Hosts[0].PCI = append(m.Hosts[0].PCI, card("0000:41:00.0", 41), virtual("0000:41:00.4", 42), virtual("0000:41:01.1", 43), card("0001:04:00.0", 7), card("0001:05:00.0", 7))
	m.Mappings = []PCIMapping{
		{ID: "pair", Map: []string{"node=pve1,path=0001:04:00;0001:05:00,id=10de:25b6,iommugroup=7,subsystem-id=10de:14a9"}},
		{ID: "each", Map: []string{"node=pve1,path=0001:04:00,id=10de:25b6,iommugroup=7,subsystem-id=10de:14a9", "node=pve1,path=0001:05:00,id=10de:25b6,iommugroup=7,subsystem-id=10de:14a9"}},
		{ID: "virtual", Map: []string{"node=pve1,path=0000:41:00.4,id=10de:25b6,iommugroup=42,subsystem-id=10de:14a9"}},
	}
	m.Containers = []Container{{ID: 101, Node: "pve1", Name: "plex", Running: true, Config: map[string]string{"dev0": "/dev/nvidia0"}, Raw: []string{"lxc.mount.entry: /dev/nvidiactl dev/nvidiactl none bind,optional,create=file"}}}
	return m
}

// TestCardsAsHostsHaveThem follows pve-common's SysFSTools.pm (lspci), pve-guest-common's
// Mapping/PCI.pm (assert_valid) and pve-container's API2/LXC/Config.pm.
func TestCardsAsHostsHaveThem(t *testing.T) {
	in(t, divided(), Options{}, func(t *testing.T, _ *Sim, c *caller) {
		for _, f := range rows(t, c.do("GET", "/nodes/pve1/hardware/pci")) {
			switch f["id"] {
			case "0000:41:00.0":
				assert.Equal(t, map[string]any{"virtfn0": "0000:41:00.4", "virtfn1": "0000:41:01.1"}, f["virtfns"])
			case "0000:41:00.4", "0000:41:01.1":
				assert.Equal(t, "0000:41:00.0", f["physfn"])
			default:
				assert.Empty(t, f["physfn"], f["virtfns"])
			}
		}
		for _, m := range rows(t, c.do("GET", "/cluster/mapping/pci", "check-node", "pve1")) {
			said := fmt.Sprint(m["checks"])
			assert.Equal(t, m["id"] == "virtual", strings.Contains(said, "'mdev' does not match for 'virtual' (1 != 0)"), said)
			assert.Equal(t, m["id"] != "virtual", said == "[]", said)
		}
		var config map[string]any
		require.NoError(t, json.Unmarshal(c.do("GET", "/nodes/pve1/lxc/101/config").Data, &config))
		assert.Equal(t, "/dev/nvidia0", config["dev0"])
		assert.Equal(t, []any{[]any{"lxc.mount.entry", "/dev/nvidiactl dev/nvidiactl none bind,optional,create=file"}}, config["lxc"])
		assert.True(t, slices.ContainsFunc(rows(t, c.do("GET", "/cluster/resources", "type", "vm")), func(r map[string]any) bool { return r["id"] == "lxc/101" }))
		assert.Contains(t, c.do("POST", "/nodes/pve1/qemu", "vmid", "101").body, "CT 101 already exists on node 'pve1'")
	})
}

func rows(t *testing.T, r reply) (out []map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.Data, &out))
	return out
}

// TestWhatAMachineGetsOfAMapping follows qemu-server's PCI.pm (parse_hostpci,
// choose_hostpci_devices): the paths of one entry go together, entries are alternatives, and a
// device without a choice does not go first.
func TestWhatAMachineGetsOfAMapping(t *testing.T) {
	const pair, each, first, twice = "mapping=pair", "mapping=each", "0001:04:00", "device '0001:04:00.0' assigned more than once"
	for want, all := range map[string][][]string{
		"OK":  {{pair}, {each}, {each, each}, {first, each}},
		twice: {{pair, pair}, {each, first}, {first, pair}},
	} {
		for _, hostpci := range all {
			in(t, divided(), Options{}, func(t *testing.T, s *Sim, c *caller) {
				s.AddVM(VM{ID: 300, Node: "pve1", Name: "a", Config: map[string]string{"memory": "2048", "machine": "q35"}})
				for i, d := range hostpci {
					s.state.VMs[300].Set(fmt.Sprintf("hostpci%d", i), d)
				}
				assert.Equal(t, want, c.wait(c.do("POST", "/nodes/pve1/qemu/300/status/start")), hostpci)
			})
		}
	}
}
