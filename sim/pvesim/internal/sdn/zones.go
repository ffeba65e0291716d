package sdn

import (
	"maps"
	"slices"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/access"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// zoneHandlers show the zones and VNets of a model (PVE/API2/Network/SDN/Zones.pm, Vnets.pm and
// Nodes/Zones.pm). Nothing makes any.
func zoneHandlers() map[string]world.Handler {
	return map[string]world.Handler{
		"GET /cluster/sdn/zones":        func(c *world.Call) (any, error) { return listEntries(c, world.ZonesFile, "zone") },
		"GET /cluster/sdn/zones/{zone}": func(c *world.Call) (any, error) { return showEntry(c, world.ZonesFile, "zone") },
		"GET /cluster/sdn/vnets":        func(c *world.Call) (any, error) { return listEntries(c, world.VNetsFile, "vnet") },
		"GET /cluster/sdn/vnets/{vnet}": func(c *world.Call) (any, error) { return showEntry(c, world.VNetsFile, "vnet") },
		"GET /nodes/{node}/sdn/zones":   zonesOfNode,
	}
}

// one is a zone or a VNet as it is read.
func one(c *world.Call, file, key, id string, e map[string]any) map[string]any {
	e = maps.Clone(e)
	e[key] = id
	if !c.Params.Bool("pending") && !c.Params.Bool("running") {
		e["digest"] = world.DigestOf(c.State.SDN.Sections[file])
	}
	return e
}

func listEntries(c *world.Call, file, key string) (any, error) {
	out, all := []any{}, c.State.SDN.Sections[file]
	for _, id := range slices.Sorted(maps.Keys(all)) {
		path := "/sdn/zones/" + id
		if zone, _ := all[id]["zone"].(string); file == world.VNetsFile {
			path = "/sdn/zones/" + zone + "/" + id
		}
		if t := c.Param("type"); file == world.ZonesFile && t != "" && t != all[id]["type"] ||
			!access.CanAny(c.State, c.Who, path, "SDN.Audit", "SDN.Allocate") {
			continue
		}
		out = append(out, one(c, file, key, id, all[id]))
	}
	return out, nil
}

func showEntry(c *world.Call, file, key string) (any, error) {
	id := c.Param(key)
	e := c.State.SDN.Sections[file][id]
	if e == nil {
		return nil, answer.Die("sdn '%s' does not exist", id)
	}
	return one(c, file, key, id, e), nil
}

func zonesOfNode(c *world.Call) (any, error) {
	out, here := []any{}, map[string]bool{}
	for _, n := range c.State.SDN.VNets {
		if vnet, zone := c.State.SDN.VNetOn(c.Host().Name, n.Name); vnet != nil {
			here[zone.ID] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(here)) {
		out = append(out, map[string]any{"zone": id, "status": "available"})
	}
	return out, nil
}
