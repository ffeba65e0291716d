package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// The MTU of an interface without a setting, and of a VNet in a tunnel (PVE/Network/SDN/Zones,
// VxlanPlugin.pm and EvpnPlugin.pm).
const (
	usualMTU  = 1500
	tunnelMTU = 1450
)

// BridgeMTU is what the kernel says of an interface that a machine's card names; false if there is
// no such interface (pve-common, PVE/Network.pm, read_bridge_mtu, which asks no more than that).
func BridgeMTU(s *world.State, h *world.Host, name string) (int, bool) {
	if e := Network(h)[name]; e != nil {
		return cmp.Or(max(0, schema.Atoi(e["mtu"])), usualMTU), true
	}
	vnet, zone := s.SDN.VNet(h.Name, name)
	mtu, _ := zone["mtu"].(int)
	if mtu == 0 {
		mtu = map[any]int{"vxlan": tunnelMTU, "evpn": tunnelMTU}[zone["type"]]
	}
	return cmp.Or(mtu, usualMTU), vnet != nil
}

// Plug plugs a card of a machine into a bridge, with a VLAN unless tag is empty: what pve-bridge
// dies of (pve-common, PVE/Network.pm, tap_plug, activate_bridge_vlan; pve-network,
// PVE/Network/SDN/Zones/Plugin.pm, tap_plug).
func Plug(s *world.State, h *world.Host, bridge, tag string) error {
	if vnet, _ := s.SDN.VNet(h.Name, bridge); vnet != nil {
		if tag != "" && vnet["vlanaware"] != 1 {
			return answer.Die("vm vlans are not allowed on vnet %s at /usr/share/perl5/PVE/Network/SDN/Zones/Plugin.pm line 269.", bridge)
		}
		return nil
	}
	all := Network(h)
	switch e := all[bridge]; {
	case e == nil:
		return answer.Die("bridge '%s' does not exist", bridge)
	case e["type"] == "OVSBridge": // which has all VLANs on all ports
		return nil
	case e["type"] != "bridge":
		return answer.Die("bridge '%s' is neither a linux nor an OVS bridge!", bridge)
	case tag == "" || e["bridge_vlan_aware"] == "1":
		return nil
	}
	return vlanBridge(all, bridge, tag)
}

// vlanBridge makes a bridge of a VLAN on the ports of another.
func vlanBridge(all map[string]map[string]string, bridge, tag string) error {
	ports := strings.Fields(all[bridge]["bridge_ports"])
	if len(ports) == 0 {
		return answer.Die("no physical interface on bridge '%s'", bridge)
	}
	own := bridge + "v" + tag
	if err := fits(own); err != nil {
		return err
	}
	for _, port := range ports {
		vlan := port + "." + tag
		if err := fits(vlan); err != nil {
			return answer.Die("can't add vlan tag %s to interface %s - %v", tag, port, err)
		}
		for _, other := range slices.Sorted(maps.Keys(all)) {
			if slices.Contains(strings.Fields(all[other]["bridge_ports"]), vlan) {
				return answer.Die("interface %s already exist in bridge %s", vlan, other)
			}
		}
	}
	return nil
}

// fits refuses a name that is too long for the kernel (check_iface_name; IFNAMSIZ is 16, with the
// zero at its end).
func fits(name string) error {
	if len(name) < 16 {
		return nil
	}
	return answer.Die("the interface name %s is too long at /usr/share/perl5/PVE/Network.pm line 184.", name)
}

// vnets are the networks of SDN in a node's list of bridges.
func vnets(c *world.Call) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name := range c.State.SDN.Running[world.VNets] {
		vnet, _ := c.State.SDN.VNet(c.Host().Name, name)
		if vnet == nil {
			continue
		}
		e := map[string]any{"type": "vnet", "active": "1", "ipam": 0, "vlanaware": 0, "comments": vnet["alias"]}
		if vnet["vlanaware"] == 1 {
			e["vlanaware"] = 1
		}
		out[name] = e
	}
	return out
}

// zonePath is where the right to use a bridge is looked up.
func zonePath(s *world.State, bridge string) string {
	return fmt.Sprintf("/sdn/zones/%s/%s", s.SDN.ZoneOf(bridge), bridge)
}
