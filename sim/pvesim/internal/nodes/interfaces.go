package nodes

import (
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/networkfile"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// read is the file as it is read: with what follows from it, and what is up.
func read(h *world.Host, all networkfile.Interfaces) map[string]map[string]any {
	out := map[string]map[string]any{}
	slaves := map[string]bool{}
	for _, e := range all {
		for _, p := range schema.SplitList(e["slaves"]) {
			slaves[p] = true
		}
	}
	for _, name := range all.Order() {
		e := map[string]any{"type": all[name]["type"], "priority": schema.Atoi(all[name]["priority"])}
		for k, v := range all[name] {
			switch k {
			case "type", "cidr", "cidr6", "vlan-id", "priority":
			case "autostart", "bridge_vlan_aware":
				if v == "1" {
					e[k] = 1
				}
			case "comments":
				if v != "" {
					e[k] = strings.TrimRight(v, "\n") + "\n"
				}
			case "mtu":
				e[k] = v
			default:
				if v != "" {
					e[k] = v
				}
			}
		}
		networkfile.Addresses(e, all[name])
		networkfile.Usual(e, name, all[name])
		if slaves[name] {
			e["autostart"] = 1
		}
		if Network(h)[name] != nil && (e["type"] != "eth" || !h.NoCard) {
			e["active"] = 1
			if e["type"] == "eth" {
				e["exists"] = 1
			}
		}
		out[name] = e
	}
	return out
}
