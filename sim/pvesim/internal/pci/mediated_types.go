package pci

import "github.com/cps-gpu/homelab/sim/pvesim/internal/world"

// mediatedTypes lists the kinds of mediated devices that a card can make.
func mediatedTypes(c *world.Call) (any, error) {
	id := c.Param("pci-id-or-mapping")
	d := c.Host().Devices[id]
	if m := c.State.Mappings[id]; m != nil {
		for _, e := range m.Entries {
			if p := EntryProps(c.State, e); p["node"] == c.Param("node") {
				if found := functions(c.Host(), p["path"]); len(found) > 0 {
					d = found[0]
				}
			}
		}
	}
	if d == nil || !d.MDev {
		return []any{}, nil
	}
	return []any{map[string]any{"type": "nvidia-469", "name": "GRID A100-4C", "description": "num_heads=1, frl_config=60, framebuffer=4096M, max_resolution=4096x2160, max_instance=10", "available": 10}}, nil
}
