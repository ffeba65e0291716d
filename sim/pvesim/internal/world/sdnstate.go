package world

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// SDN is what a model says of it. Nothing here changes it, so what is configured runs.
type SDN struct {
	Zones    []model.Zone
	VNets    []*model.VNet
	Sections map[string]map[string]map[string]any // as they are read, by file and ID
}

// Files of zones and of their networks.
const (
	ZonesFile = "zones"
	VNetsFile = "vnets"
)

// describe is the SDN of a model, applied.
func (s *SDN) describe(m model.Model) {
	if len(m.VNets)+len(m.Zones) == 0 {
		return
	}
	s.Zones = slices.Clone(m.Zones)
	zones, vnets := map[string]map[string]any{}, map[string]map[string]any{}
	for _, n := range m.VNets {
		n.Leases = slices.Clone(n.Leases)
		s.VNets = append(s.VNets, &n)
		vnets[n.Name] = section(map[string]any{"type": "vnet", "zone": n.Zone, "tag": n.Tag, "vlanaware": answer.Flag(n.VLANAware)})
		if !slices.ContainsFunc(s.Zones, func(z model.Zone) bool { return z.ID == n.Zone }) {
			s.Zones = append(s.Zones, model.Zone{ID: n.Zone, Type: "simple"})
		}
	}
	for _, z := range s.Zones {
		zones[z.ID] = section(map[string]any{"type": z.Type, "nodes": strings.Join(z.Nodes, ","), "mtu": z.MTU, "bridge": z.Bridge})
	}
	s.Sections = map[string]map[string]map[string]any{ZonesFile: zones, VNetsFile: vnets}
}

// section is what a file says: nothing of what is not set.
func section(e map[string]any) map[string]any {
	maps.DeleteFunc(e, func(_ string, v any) bool { return v == "" || v == 0 })
	return e
}

// VNet is the virtual network of a name, nil for a bridge.
func (s *SDN) VNet(name string) *model.VNet {
	for _, n := range s.VNets {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// VNetOn is a virtual network that a node has, and its zone (PVE/Network/SDN.pm, get_local_vnets).
func (s *SDN) VNetOn(node, name string) (*model.VNet, model.Zone) {
	n := s.VNet(name)
	for _, z := range s.Zones {
		if n != nil && z.ID == n.Zone && (len(z.Nodes) == 0 || slices.Contains(z.Nodes, node)) {
			return n, z
		}
	}
	return nil, model.Zone{}
}

// Zone is where rights on a bridge or a virtual network stand.
func (s *SDN) Zone(bridge string) string {
	if n := s.VNet(bridge); n != nil {
		return n.Zone
	}
	return "localnetwork"
}

// Lease gives each network card of a new machine an address, where its network has DHCP
// (qemu-server, create_ifaces_ipams_ips of PVE/QemuServer/Network.pm).
func (s *State) Lease(v *VM) {
	for key, value := range v.Conf {
		if !NetKey.MatchString(key) {
			continue
		}
		d := s.Props(key, value)
		if n := s.SDN.VNet(d["bridge"]); n != nil && n.DHCP != "" && !n.NoIPAM {
			first, last, _ := strings.Cut(n.DHCP, "-")
			at, err := netip.ParseAddr(first)
			end, err2 := netip.ParseAddr(last)
			for err == nil && err2 == nil && !end.Less(at) && slices.ContainsFunc(n.Leases, func(l model.Lease) bool { return l.IP == at.String() }) {
				at = at.Next()
			}
			if err == nil && err2 == nil && !end.Less(at) {
				n.Leases = append(n.Leases, model.Lease{IP: at.String(), MAC: d["macaddr"], Hostname: v.Conf["name"], VMID: v.ID})
			}
		}
	}
}

// Release gives the addresses of a machine back that is gone: those of its cards' MACs
// (delete_ifaces_ipams_ips of the same).
func (s *State) Release(v *VM) {
	for key, value := range v.Conf {
		if !NetKey.MatchString(key) {
			continue
		}
		mac := s.Props(key, value)["macaddr"]
		for _, n := range s.SDN.VNets {
			n.Leases = slices.DeleteFunc(n.Leases, func(l model.Lease) bool { return mac != "" && strings.EqualFold(l.MAC, mac) })
		}
	}
}
