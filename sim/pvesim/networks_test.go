package pvesim

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// networked is a host with a bridge of each kind.
func networked() Model {
	m := EightA100()
	h := &m.Hosts[0]
	h.Bridges, h.VLANAware = []string{"vmbr0", "vmbr1", "vmbr2", "vmbr3"}, []string{"vmbr1"}
	h.CIDRs = map[string]string{"vmbr0": "10.0.0.5/24", "vmbr1": "", "vmbr2": "", "vmbr3": ""}
	h.Links = map[string]map[string]string{
		"eno5": {"type": "eth"}, "eno6": {"type": "eth"}, "enp129s0f0np0": {"type": "eth"}, "eno7": {"type": "eth"},
		"bond0":  {"type": "bond", "slaves": "eno5 eno6", "bond_mode": "802.3ad"},
		"vmbr0":  {"bridge_ports": "bond0", "mtu": "9000"},
		"vmbr2":  {"bridge_ports": "enp129s0f0np0"},
		"vmbr3":  {"bridge_ports": "bond0.30"},
		"vlan20": {"type": "vlan", "vlan-raw-device": "bond0", "cidr": "10.20.0.5/24"},
		"vmbr4":  {"type": "OVSBridge", "ovs_ports": "eno7 admin", "autostart": "1"},
		"eno8":   {"type": "OVSPort", "ovs_bridge": "vmbr4"},
		"admin":  {"type": "OVSIntPort", "ovs_bridge": "vmbr4", "cidr": "10.40.0.5/24"},
	}
	m.Zones = []Zone{{ID: "lan", Type: "vlan", Bridge: "vmbr1"}, {ID: "tunnel", Type: "vxlan"}, {ID: "away", Type: "simple", Nodes: []string{"pve2"}}}
	m.VNets = []VNet{{Name: "k8s", Zone: "lan", Tag: 50}, {Name: "trunk", Zone: "lan", Tag: 60, VLANAware: true}, {Name: "vx", Zone: "tunnel", Tag: 7000}, {Name: "gone", Zone: "away"}}
	return m
}

// What machines may join, and what a start says of the rest (see docs/simulator.md for the sources).
func TestNetworksOfHosts(t *testing.T) {
	in(t, networked(), Options{}, func(t *testing.T, s *Sim, c *caller) {
		names := func(kind string) (out []string) {
			for _, e := range listOf(c.do("GET", "/nodes/pve1/network", "type", kind)) {
				out = append(out, e["iface"].(string)+" "+e["type"].(string))
			}
			slices.Sort(out)
			return out
		}
		local := []string{"vmbr0 bridge", "vmbr1 bridge", "vmbr2 bridge", "vmbr3 bridge", "vmbr4 OVSBridge"}
		assert.Equal(t, local, names("any_local_bridge"))
		assert.Equal(t, append([]string{"k8s vnet", "trunk vnet"}, append(local, "vx vnet")...), names("any_bridge"))
		assert.Equal(t, []string{"bond0 bond"}, names("bond"))
		assert.Equal(t, []string{"vlan20 vlan"}, names("vlan"))

		for net, want := range map[string]string{
			"bridge=vmbr0":          "",
			"bridge=vmbr0,tag=20":   "", // a bridge vmbr0v20 on bond0.20
			"bridge=vmbr0,mtu=9000": "",
			"bridge=vmbr0,tag=30":   "interface bond0.30 already exist in bridge vmbr3",
			"bridge=vmbr1,tag=20":   "",
			"bridge=vmbr1,mtu=9000": "MTU '9000' is bigger than the bridge MTU '1500'",
			"bridge=vmbr2,tag=7":    "",
			"bridge=vmbr2,tag=100":  "can't add vlan tag 100 to interface enp129s0f0np0 - the interface name enp129s0f0np0.100 is too long",
			"bridge=vmbr4,tag=20":   "",
			"bridge=vmbr4,mtu=1":    "",
			"bridge=bond0":          "bridge 'bond0' is neither a linux nor an OVS bridge!",
			"bridge=vlan20":         "bridge 'vlan20' is neither a linux nor an OVS bridge!",
			"bridge=k8s":            "",
			"bridge=k8s,tag=5":      "vm vlans are not allowed on vnet k8s",
			"bridge=trunk,tag=5":    "",
			"bridge=vx,mtu=1500":    "MTU '1500' is bigger than the bridge MTU '1450'",
			"bridge=vx,mtu=1":       "",
			"bridge=gone":           "bridge 'gone' does not exist",
		} {
			require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "net0", "virtio,"+net)), net)
			r := c.do("POST", "/nodes/pve1/qemu/300/status/start")
			end := c.wait(r)
			if want == "" {
				assert.Equal(t, "OK", end, net)
				c.wait(c.do("POST", "/nodes/pve1/qemu/300/status/stop"))
			} else {
				assert.Contains(t, end+c.do("GET", "/nodes/pve1/tasks/"+url.PathEscape(r.text())+"/log").body, jsonText(want), net)
			}
			require.Equal(t, "OK", c.wait(c.do("DELETE", "/nodes/pve1/qemu/300")), net)
		}
	})
}

func listOf(r reply) (out []map[string]any) {
	_ = json.Unmarshal(r.Data, &out)
	return out
}

// jsonText is a text as it stands in JSON.
func jsonText(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

// A right to a VNet is one in its zone.
func TestZonesOfSDN(t *testing.T) {
	in(t, networked(), Options{}, func(t *testing.T, s *Sim, _ *caller) {
		c := asRoot(t, s)
		zones := listOf(c.do("GET", "/cluster/sdn/zones"))
		require.Len(t, zones, 3)
		assert.Equal(t, []any{"away", "pve2", "simple"}, []any{zones[0]["zone"], zones[0]["nodes"], zones[0]["type"]})
		assert.Equal(t, 50.0, c.do("GET", "/cluster/sdn/vnets/k8s").object()["tag"])
		assert.Len(t, listOf(c.do("GET", "/nodes/pve1/sdn/zones")), 2)
	})
	m := networked()
	m.ACLs[0].Path = "/vms"
	m.ACLs = append(m.ACLs, ACL{Path: "/sdn/zones/lan/k8s", Who: m.ACLs[0].Who, Role: m.ACLs[0].Role})
	in(t, m, Options{}, func(t *testing.T, s *Sim, c *caller) {
		require.Equal(t, "OK", c.wait(c.do("POST", "/nodes/pve1/qemu", "vmid", "300", "net0", "virtio,bridge=k8s")))
		assert.Contains(t, c.do("POST", "/nodes/pve1/qemu", "vmid", "301", "net0", "virtio,bridge=vx").body, "(/sdn/zones/tunnel/vx, SDN.Use)")
	})
}
