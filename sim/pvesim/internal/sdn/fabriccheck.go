package sdn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// prefixOf and addressOf read what the schema has checked.
func prefixOf(e map[string]any, key string) netip.Prefix {
	text, _ := e[key].(string)
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

func addressOf(e map[string]any, key string) netip.Addr {
	text, _ := e[key].(string)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address
}

// checkFabrics checks all fabrics against each other and their nodes against them, in the
// order in which Proxmox does (proxmox-ve-config, src/sdn/fabric/mod.rs).
func checkFabrics(fabrics, nodes world.SDNSections) error {
	names := slices.Sorted(maps.Keys(fabrics))
	for i, one := range names {
		for _, other := range names[i+1:] {
			for _, family := range [][3]string{{"ip_prefix", "IP", "IPv4"}, {"ip6_prefix", "IPv6", "IPv6"}} {
				a, b := prefixOf(fabrics[one], family[0]), prefixOf(fabrics[other], family[0])
				if a.IsValid() && b.IsValid() && a.Overlaps(b) {
					return answer.Die("%s prefix %s in fabric '%s' overlaps with %s prefix %s in fabric '%s'", family[1], b, other, family[2], a, one)
				}
			}
		}
	}
	areas, used := map[string]bool{}, map[string]bool{}
	for _, id := range names {
		if area, ok := fabrics[id]["area"].(string); ok {
			if areas[area] {
				return answer.Die("duplicate OSPF area")
			}
			areas[area] = true
		}
		var mine []map[string]any
		for _, key := range slices.Sorted(maps.Keys(nodes)) {
			if nodes[key]["fabric_id"] == id {
				mine = append(mine, nodes[key])
			}
		}
		if !freeInterfaces(mine, used) {
			return answer.Die("interface is already in use by another fabric")
		}
		if err := checkFabric(fabrics[id], mine); err != nil {
			return err
		}
	}
	return nil
}

// freeInterfaces notes what interfaces nodes use, which each may do once.
func freeInterfaces(nodes []map[string]any, used map[string]bool) bool {
	for _, n := range nodes {
		list, _ := n["interfaces"].([]string)
		for _, text := range list {
			name, _, _ := strings.Cut(strings.TrimPrefix(text, "name="), ",")
			node, _ := n["node_id"].(string)
			if used[node+" "+name] {
				return false
			}
			used[node+" "+name] = true
		}
	}
	return true
}

func checkFabric(fabric map[string]any, nodes []map[string]any) error {
	id, _ := fabric["id"].(string)
	var taken []netip.Addr
	for _, n := range nodes {
		ip, ip6 := addressOf(n, "ip"), addressOf(n, "ip6")
		if !ip.IsValid() && !ip6.IsValid() {
			return answer.Die("node '%s_%s' does not have an IP configured", id, n["node_id"])
		}
		for _, a := range []netip.Addr{ip, ip6} {
			if a.IsValid() && slices.Contains(taken, a) {
				return answer.Die("fabric %s contains nodes with duplicated IPs", id)
			}
			taken = append(taken, a)
		}
		for i, address := range []netip.Addr{ip, ip6} {
			prefix := prefixOf(fabric, []string{"ip_prefix", "ip6_prefix"}[i])
			switch {
			case !prefix.IsValid() && address.IsValid():
				return answer.Die("fabric '%s' does not have an IP prefix configured for the node IP %s", id, address)
			case prefix.IsValid() && !address.IsValid():
				return answer.Die("node '%s_%s' does not have an IP configured for this fabric prefix %s", id, n["node_id"], prefix)
			case prefix.IsValid() && !prefix.Contains(address):
				return answer.Die("node IP %s is outside the IP prefix %s of the fabric", address, prefix)
			}
		}
	}
	ospf := fabric["protocol"] == "ospf"
	switch {
	case fabric["ip_prefix"] == nil && (ospf || fabric["ip6_prefix"] == nil):
		return answer.Die("fabric '%s' does not have an IP prefix configured", id)
	case ospf && fabric["ip6_prefix"] != nil:
		return answer.Die("IPv6 is currently not supported for protocol ospf")
	}
	return nil
}
