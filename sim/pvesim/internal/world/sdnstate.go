package world

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// SDN is what is configured, what of it runs, and who alone may change it.
type SDN struct {
	Config, Running map[string]SDNSections // by file
	Lock            string                 // the token of the one who may; empty: everybody
	VNets           []*model.VNet          // nobody makes or changes one here
}

// SDNSections are the things of one file, by ID, as they are read.
type SDNSections map[string]map[string]any

// Configured are the sections of a file as they shall be.
func (s *SDN) Configured(file string) SDNSections {
	if s.Config == nil {
		s.Config = map[string]SDNSections{}
	}
	if s.Config[file] == nil {
		s.Config[file] = SDNSections{}
	}
	return s.Config[file]
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

// Zone is where rights on a bridge or a virtual network stand.
func (s *SDN) Zone(bridge string) string {
	if n := s.VNet(bridge); n != nil {
		return n.Zone
	}
	return "localnetwork"
}

// Joins reports whether machines of a host can join a bridge or a virtual network.
func (s *State) Joins(h *Host, bridge string) bool {
	return slices.Contains(h.Bridges, bridge) || s.SDN.VNet(bridge) != nil
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
