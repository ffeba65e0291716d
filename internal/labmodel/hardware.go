package labmodel

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// HardwareOf returns what the hosts of a model have.
func HardwareOf(m pvesim.Model) labctl.Hardware {
	var out labctl.Hardware
	for _, h := range m.Hosts {
		spared := unavailableMemory(m, h.Name)
		has := labctl.HostHardware{Name: h.Name, Cores: h.CPUs, Memory: int64(h.Memory - h.Used - spared), Spared: int64(spared),
			Bridges: bridges(m, h), MTUs: h.MTUs, Storages: map[string][]string{}, Mappings: mappings(m, h.Name)}
		for _, st := range h.Storages {
			has.Storages[st.Name] = st.Content
		}
		for _, d := range h.PCI {
			if strings.HasPrefix(d.Class, "03") && strings.HasPrefix(d.ID, "10de:") {
				has.GPUs = append(has.GPUs, labctl.HardwareGPU{Address: d.Address, Name: d.Name})
				continue
			}
			has.Devices = append(has.Devices, d.Address, strings.TrimSuffix(d.Address, ".0"), d.ID)
		}
		for _, d := range h.USB {
			has.USB = append(has.USB, d.ID, d.ID+" "+d.Port)
		}
		for _, pm := range m.Mappings {
			if pm.USB && slices.ContainsFunc(pm.Map, func(entry string) bool { return strings.Contains(entry, "node="+h.Name+",") }) {
				has.USB = append(has.USB, pm.ID)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(has.Mappings)) {
			has.Devices = append(has.Devices, slices.Repeat([]string{id}, has.Mappings[id])...)
		}
		out.Hosts = append(out.Hosts, has)
	}
	for _, p := range m.Pools {
		out.Pools = append(out.Pools, p.ID)
	}
	out.Groups = m.SecurityGroups
	for _, v := range m.VMs {
		if v.Config["template"] == "1" {
			out.Templates = append(out.Templates, v.Name, strconv.Itoa(v.ID))
		}
	}
	return out
}

// bridges are what VMs can join: Linux and Open vSwitch bridges, and VNets.
func bridges(m pvesim.Model, h pvesim.Host) []string {
	out := slices.Clone(h.Bridges)
	for _, name := range slices.Sorted(maps.Keys(h.Links)) {
		if t := h.Links[name]["type"]; t == "bridge" || t == "OVSBridge" {
			out = append(out, name)
		}
	}
	for _, v := range m.VNets {
		if !slices.ContainsFunc(m.Zones, func(z pvesim.Zone) bool {
			return z.ID == v.Zone && len(z.Nodes) > 0 && !slices.Contains(z.Nodes, h.Name)
		}) {
			out = append(out, v.Name)
		}
	}
	return out
}

// mappings counts the cards of each mapping on a host.
func mappings(m pvesim.Model, host string) map[string]int {
	out := map[string]int{}
	for _, pm := range m.Mappings {
		for _, entry := range pm.Map {
			if !pm.USB && strings.Contains(entry, "node="+host+",") {
				out[pm.ID]++
			}
		}
	}
	return out
}

// unavailableMemory is the memory of a host that is not available to the cluster: the host's own, and
// that of its running machines.
func unavailableMemory(m pvesim.Model, host string) pvesim.Size {
	n := 4 * pvesim.GiB
	for _, v := range m.VMs {
		if v.Node == host && v.Running {
			mib, _ := strconv.ParseInt(v.Config["memory"], 10, 64) // 0 if it is not a number
			n += pvesim.Size(mib) * pvesim.MiB
		}
	}
	return n
}
