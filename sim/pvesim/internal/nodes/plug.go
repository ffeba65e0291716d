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
	vnet, zone := s.SDN.VNetOn(h.Name, name)
	mtu := zone.MTU
	if mtu == 0 {
		mtu = map[string]int{"vxlan": tunnelMTU, "evpn": tunnelMTU}[zone.Type]
	}
	return cmp.Or(mtu, usualMTU), vnet != nil
}

// Plug plugs a card of a machine into a bridge, with a VLAN unless tag is empty: what pve-bridge
// dies of (pve-common, PVE/Network.pm, tap_plug, activate_bridge_vlan; pve-network,
// PVE/Network/SDN/Zones/Plugin.pm, tap_plug).
func Plug(s *world.State, h *world.Host, bridge, tag string) error {
	if vnet, _ := s.SDN.VNetOn(h.Name, bridge); vnet != nil {
		if tag != "" && !vnet.VLANAware {
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
	for _, n := range c.State.SDN.VNets {
		if here, _ := c.State.SDN.VNetOn(c.Host().Name, n.Name); here != nil {
			out[n.Name] = map[string]any{"type": "vnet", "active": "1", "ipam": answer.Flag(!n.NoIPAM), "vlanaware": answer.Flag(n.VLANAware)}
		}
	}
	return out
}

// zonePath is where the right to use a bridge is looked up.
func zonePath(s *world.State, bridge string) string {
	return fmt.Sprintf("/sdn/zones/%s/%s", s.SDN.Zone(bridge), bridge)
}
