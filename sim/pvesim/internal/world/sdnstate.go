package world

import (
	"maps"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// SDN is what is configured, what of it runs, and who alone may change it.
type SDN struct {
	Config, Running map[string]SDNSections // by file
	Lock            string                 // the token of the one who may; empty: everybody
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

// Files of zones and of their networks.
const (
	Zones = "zones"
	VNets = "vnets"
)

// describe is the SDN of a model, applied.
func (s *SDN) describe(m model.Model) {
	if len(m.Zones) == 0 {
		return
	}
	zones, vnets := s.Configured(Zones), s.Configured(VNets)
	for _, z := range m.Zones {
		zones[z.ID] = section(map[string]any{"type": z.Type, "nodes": strings.Join(z.Nodes, ","), "mtu": z.MTU, "bridge": z.Bridge})
	}
	for _, v := range m.VNets {
		aware := 0
		if v.VLANAware {
			aware = 1
		}
		vnets[v.ID] = section(map[string]any{"type": "vnet", "zone": v.Zone, "tag": v.Tag, "vlanaware": aware})
	}
	s.Running = map[string]SDNSections{Zones: maps.Clone(zones), VNets: maps.Clone(vnets)}
}

// section is what a file says: nothing of what is not set.
func section(e map[string]any) map[string]any {
	maps.DeleteFunc(e, func(_ string, v any) bool { return v == "" || v == 0 })
	return e
}

// ZoneOf is the zone that a bridge of machines belongs to: the hosts' own, or that of a VNet.
func (s *SDN) ZoneOf(bridge string) string {
	if v := s.Configured(VNets)[bridge]; v != nil {
		zone, _ := v["zone"].(string)
		return zone
	}
	return "localnetwork"
}

// VNet is a network of SDN that a node has, and its zone; nil if it has none of that name
// (PVE/Network/SDN.pm, get_local_vnets).
func (s *SDN) VNet(node, name string) (vnet, zone map[string]any) {
	vnet = s.Running[VNets][name]
	id, _ := vnet["zone"].(string)
	zone = s.Running[Zones][id]
	if nodes, _ := zone["nodes"].(string); vnet == nil || nodes != "" && !strings.Contains(","+nodes+",", ","+node+",") {
		return nil, nil
	}
	return vnet, zone
}
